"""Each kind of feature becomes what a model takes, missing and unknown values included."""

import dataclasses
import itertools
import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from sklearn.feature_extraction.text import CountVectorizer

from pipeline.base.errors import InputError
from pipeline.data.dataset.statistics import FeatureStatistics, NumericSummary, SplitStatistics, ValueCounts
from pipeline.data.images.augmentation import Augmentation
from pipeline.data.images.decoding import decode_images
from pipeline.data.images.pixels import normalize
from pipeline.data.preprocessing.preprocess import LabelScale, Preprocess, check_measured, label_scale
from pipeline.data.schema import feature_json
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import (
    Categorical,
    Datetime,
    Image,
    Label,
    Numeric,
    Tensor,
    Text,
    Tokens,
)
from pipeline.data.schema.schema import Group, Schema
from tests.shared.tiny_dataset import describe
from tests.unit.data.images.training_images import training_image


def preprocess_of(feature: Feature, values: list) -> Preprocess:
    schema = Schema(name="one", features=(feature, Label(name="y", classes=("a", "b"))))
    return Preprocess(schema, describe(schema, [{feature.name: value, "y": 0} for value in values]))


def test_numbers_are_standardized_and_put_into_quantile_bins():
    preprocess = preprocess_of(Numeric(name="x"), [1.0, 2.0, 3.0, 4.0, 5.0])
    outputs = preprocess({"x": tf.constant([1.0, 3.0, 5.0])})
    np.testing.assert_allclose(outputs["numeric"], [[-math.sqrt(2)], [0.0], [math.sqrt(2)]], atol=1e-6)
    assert outputs["categories"].numpy().ravel().tolist() == [1, 3, 4]
    assert preprocess.inputs.cardinalities == (5,)  # four bins, and 0 for a missing value


def test_fractions_have_bins_of_their_own_in_a_graph():
    """Keras's Discretization, told to give int32, takes the whole part of a number in a graph."""
    preprocess = preprocess_of(Numeric(name="x"), [0.1, 0.2, 0.3, 0.4, 0.5])
    outputs = tf.function(preprocess)({"x": tf.constant([0.1, 0.2, 0.31, 0.5, math.inf, -math.inf])})
    assert outputs["categories"].numpy().ravel().tolist() == [1, 2, 3, 4, 4, 1]


def test_no_number_is_farther_than_a_model_can_bear():
    preprocess = preprocess_of(Numeric(name="x"), [1.0, 2.0, 3.0])
    outputs = preprocess({"x": tf.constant([math.inf, -math.inf, 3e38, math.nan])})
    assert outputs["numeric"].numpy().ravel().tolist() == pytest.approx([1e18, -1e18, 1e18, 0.0])


def test_a_missing_number_becomes_the_mean_and_says_so():
    preprocess = preprocess_of(Numeric(name="x", missing="mark"), [1.0, 2.0, 3.0, math.nan])
    outputs = preprocess({"x": tf.constant([math.nan, 3.0])})
    assert preprocess.inputs.numeric == 2
    np.testing.assert_allclose(outputs["numeric"][0], [0.0, 1.0])
    assert outputs["numeric"][1, 1] == 0.0
    assert outputs["categories"].numpy().ravel().tolist()[0] == 0


def test_a_constant_column_does_not_divide_by_zero():
    outputs = preprocess_of(Numeric(name="x"), [7.0, 7.0])({"x": tf.constant([7.0, 9.0])})
    np.testing.assert_allclose(outputs["numeric"], [[0.0], [2.0]])


@pytest.mark.parametrize(
    ("feature", "values", "ids", "cardinality"),
    [
        (Categorical(name="c", vocabulary=("a", "b")), ["a", "b", "zzz"], [1, 2, 0], 3),
        (Categorical(name="c", vocabulary=("a", "b"), missing="mark"), ["", "a", "zzz"], [1, 2, 0], 4),
        (Categorical(name="c"), ["often", "seldom", "never seen"], [1, 2, 0], 3),
        (Categorical(name="c", max_vocabulary=1), ["often", "seldom"], [1, 0], 2),
        (Categorical(name="c", encoding="integer", size=3), [0, 2, 3, -1], [1, 3, 0, 0], 4),
        (Categorical(name="c", vocabulary=("[UNK]", "b")), ["[UNK]", "b", "zzz"], [1, 2, 0], 3),
    ],
)
def test_categories_become_ids_and_unknown_ones_id_0(feature, values, ids, cardinality):
    seen = [0] * 2 if feature.dtype == "int64" else ["often", "often", "seldom"]
    preprocess = preprocess_of(feature, seen)
    assert preprocess({"c": tf.constant(values)})["categories"].numpy().ravel().tolist() == ids
    assert preprocess.inputs.cardinalities == (cardinality,)


def test_a_column_without_a_value_has_one_id():
    preprocess = preprocess_of(Categorical(name="c"), [])
    assert preprocess({"c": tf.constant(["none", "a"])})["categories"].numpy().ravel().tolist() == [0, 0]
    assert preprocess.inputs.cardinalities == (1,)


def test_a_default_that_no_row_holds_is_not_unknown():
    feature = Categorical(name="c", missing="default", default="none")
    preprocess = preprocess_of(feature, ["a", "none", "b", "a"])
    outputs = preprocess({"c": tf.constant(["a", "b", "none", "new"])})
    assert outputs["categories"].numpy().ravel().tolist() == [1, 2, 3, 0]
    assert preprocess.inputs.cardinalities == (4,)


def test_a_missing_value_shares_no_bucket():
    feature = Categorical(name="c", encoding="hashed", buckets=2, missing="mark")
    values = tf.constant(["", *(f"value {i}" for i in range(50))])
    ids = preprocess_of(feature, ["x"])({"c": values})["categories"].numpy().ravel()
    assert ids[0] == 0 and set(ids[1:]) == {1, 2}


def test_hashed_categories_stay_within_their_buckets():
    preprocess = preprocess_of(Categorical(name="c", encoding="hashed", buckets=8), ["x"])
    ids = preprocess({"c": tf.constant([f"value {i}" for i in range(200)])})["categories"].numpy()
    assert set(ids.ravel()) == set(range(1, 9))  # and 0 is the missing value


def test_too_many_values_to_learn_a_vocabulary_from_are_refused():
    feature = Categorical(name="c")
    schema = Schema(name="one", features=(feature,))
    counts = ValueCounts(distinct=1_000_000, values=(), complete=False)
    statistics = FeatureStatistics(name="c", dtype="string", present=2_000_000, missing=0, values=counts)
    with pytest.raises(InputError, match=r'1,000,000 different values.*"encoding": "hashed"'):
        Preprocess(schema, SplitStatistics(examples=2_000_000, features={"c": statistics}))


def test_text_becomes_hashed_words_padded_with_0():
    preprocess = preprocess_of(Text(name="t", length=4, buckets=100), ["x"])
    ids = preprocess({"t": tf.constant(["to be or not to be", "be", ""])})["t"].numpy()
    assert preprocess.inputs.sequences == {"t": (4, 101)}
    assert ids.shape == (3, 4)
    assert ids[1, 0] == ids[0, 1] > 0
    assert ids[1, 1:].tolist() == [0, 0, 0] and ids[2].tolist() == [0, 0, 0, 0]


TEXTS = ["The Market, the MARKET; it's 3.5% up", "Straße: ÉTÉ-été", "don't", "", "one"]


def test_words_and_pairs_are_those_of_scikit_learn():
    feature = Text(name="t", length=5, buckets=1 << 20, words="lower_case", pairs=True)
    ids = preprocess_of(feature, ["x"])({"t": tf.constant(TEXTS)})["t"].numpy()
    assert ids.shape == (5, 9)
    analyse = CountVectorizer(token_pattern=r"(?u)\b\w+\b").build_analyzer()
    hashing = keras.layers.Hashing(num_bins=feature.buckets)
    for text, found in zip(TEXTS, ids, strict=True):
        words = analyse(text)[:5]
        pairs = [" ".join(pair) for pair in itertools.pairwise(words)]
        expected = [1 + hashing(tf.constant(some)).numpy() if some else [] for some in (words, pairs)]
        assert found[: len(words)].tolist() == list(expected[0])
        assert found[5 : 5 + len(pairs)].tolist() == list(expected[1])
        assert np.count_nonzero(found) == len(words) + len(pairs)


def runs_of(text: str, shortest: int, longest: int) -> list[str]:
    """The runs of characters of a text, word by word, the short ones first."""
    spaced = [f" {word} " for word in text.split()]
    return [
        word[at : at + size]
        for word in spaced
        for size in range(shortest, longest + 1)
        for at in range(len(word) - size + 1)
    ]


def test_runs_of_characters_have_ids_of_their_own_behind_those_of_words():
    feature = Text(name="t", length=5, buckets=1 << 20, words="lower_case", pairs=True, characters=(3, 4))
    preprocess = preprocess_of(feature, ["x"])
    assert preprocess.inputs.sequences == {"t": (9 + 60, 1 + 2 * feature.buckets)}
    assert preprocess.inputs.parts == {"t": (9, 60)}
    ids = preprocess({"t": tf.constant(TEXTS)})["t"].numpy()
    alone = dataclasses.replace(feature, characters=())
    np.testing.assert_array_equal(ids[:, :9], preprocess_of(alone, ["x"])({"t": tf.constant(TEXTS)})["t"])
    hashing = keras.layers.Hashing(num_bins=feature.buckets)
    for text, found in zip(TEXTS, ids[:, 9:], strict=True):
        runs = runs_of(text.lower(), 3, 4)[:60]
        expected = 1 + feature.buckets + hashing(tf.constant(runs)).numpy() if runs else []
        assert found[: len(runs)].tolist() == list(expected)
        assert not found[len(runs) :].any()


def test_distant_pairs_are_other_pairs_than_neighbours():
    feature = Text(name="t", length=4, buckets=1 << 20, words="lower_case", pairs=True, gap=2)
    preprocess = preprocess_of(feature, ["x"])
    assert preprocess.inputs.parts == {"t": (4 + 3, 2 + 1)}
    found = preprocess({"t": tf.constant(["not very good", "A b c d e", "one"])})["t"].numpy()
    hashing = keras.layers.Hashing(num_bins=feature.buckets)
    ids = [
        dict(zip(texts, (1 + hashing(tf.constant(texts)).numpy()).tolist(), strict=True))
        for texts in (
            ["not", "very", "good", "not very", "very good", "not  good"],
            ["a", "b", "c", "d", "a b", "b c", "c d", "a  c", "b  d", "a   d"],
            ["one"],
        )
    ]
    assert found[0, [0, 1, 2, 4, 5, 7]].tolist() == list(ids[0].values())
    assert found[1].tolist() == list(ids[1].values())
    assert found[2].tolist() == [ids[2]["one"], *[0] * 9]
    assert len({*ids[1].values()}) == 10


def test_the_runs_of_a_word_are_those_of_scikit_learn():
    analyse = CountVectorizer(analyzer="char_wb", ngram_range=(3, 6)).build_analyzer()
    assert sorted(analyse("sadly , it's été")) == sorted(runs_of("sadly , it's été", 3, 6))


def test_runs_beyond_the_room_are_left_out_and_a_batch_without_a_text_has_none():
    feature = Text(name="t", length=2, buckets=64, characters=(3, 3))
    runs = preprocess_of(feature, ["x"])
    ids = runs({"t": tf.constant(["a" * 500 + " b", "b"])})["t"].numpy()
    assert ids.shape == (2, 2 + 24) and ids[0, 2:].all()
    assert np.count_nonzero(ids[1, 2:]) == 1
    assert not runs({"t": tf.constant([""])})["t"].numpy().any()
    assert runs({"t": tf.zeros([0], tf.string)})["t"].shape == (0, 26)
    long = dataclasses.replace(feature, length=512)
    assert preprocess_of(long, ["x"]).inputs.parts == {"t": (512, 1024)}


def test_a_schema_of_before_takes_words_as_they_are_written():
    feature = feature_json.feature_from_json({"kind": "text", "name": "t"})
    assert (feature.words, feature.pairs) == ("as_written", False)
    ids = preprocess_of(feature, ["x"])({"t": tf.constant(["Market, market"])})["t"].numpy()
    assert ids[0, 0] != ids[0, 1]


def test_tokens_leave_0_for_padding_and_tensors_are_flattened():
    tokens = preprocess_of(Tokens(name="t", length=2, vocabulary_size=9), [0])
    assert tokens({"t": tf.constant([[0, 8]], tf.int64)})["t"].numpy().tolist() == [[1, 9]]
    assert tokens.inputs.sequences == {"t": (2, 10)}
    beyond = tf.constant([[9, -1], [1 << 32, 3]], tf.int64)
    assert tokens({"t": beyond})["t"].numpy().tolist() == [[0, 0], [0, 4]]
    assert tokens({"t": tf.constant([[9, -1]], tf.int32)})["t"].numpy().tolist() == [[0, 0]]
    tensor = preprocess_of(Tensor(name="t", dimensions=(2, 2)), [0.0])
    assert tensor({"t": tf.constant([[[1.0, 2.0], [3.0, 4.0]]])})["numeric"].numpy().tolist() == [
        [1, 2, 3, 4]
    ]


def test_the_order_of_inputs_is_that_of_kinds_whatever_the_schemas_is():
    """Checkpoints hold weights by this order: it never changes."""
    features = (
        Tensor(name="tensor", dimensions=(2,)),
        Numeric(name="number"),
        Categorical(name="colour", vocabulary=("red", "blue")),
        Tokens(name="tokens", length=1, vocabulary_size=5),
        Text(name="words", length=1, buckets=3),
    )
    schema = Schema(name="all", features=features)
    row = {"tensor": [7.0, 8.0], "number": 1.0, "colour": "red", "tokens": [4], "words": "a"}
    statistics = describe(schema, [row, row | {"number": 3.0}])
    preprocess = Preprocess(schema, statistics)
    outputs = preprocess({name: tf.constant([value]) for name, value in row.items()})
    assert outputs["numeric"].numpy().tolist() == [[-1.0, 7.0, 8.0]]
    assert preprocess.inputs.cardinalities[0] == 3  # of the colour: two, and the unknown ones
    assert list(preprocess.inputs.sequences) == ["words", "tokens"]


def test_a_model_may_know_the_quantiles_of_numbers_and_which_ids_are_their_bins():
    features = (
        Numeric(name="number", missing="mark"),
        Categorical(name="colour", vocabulary=("red", "blue")),
        Tensor(name="tensor", dimensions=(2,)),
    )
    numbers = np.random.default_rng(0).normal(7.0, 3.0, 400).astype("float32")
    rows = [{"number": float(each), "colour": "red", "tensor": [0.0, 1.0]} for each in numbers]
    schema = Schema(name="all", features=features)
    statistics = describe(schema, rows)
    inputs = Preprocess(schema, statistics).inputs
    quantiles = np.array(statistics.features["number"].numeric.distribution)
    expected = (quantiles - numbers.mean(dtype="float64")) / numbers.std(dtype="float64")
    np.testing.assert_allclose(inputs.boundaries[0], expected, rtol=1e-6, atol=1e-9)
    assert inputs.boundaries[1:] == ((), (), ())  # where it is missing, and the tensor's numbers
    assert (len(inputs.boundaries), inputs.bin_columns) == (inputs.numeric, (1,))
    assert inputs.cardinalities[0] == 3  # of the colour, whose ids are no bins


def test_bins_of_a_number_that_is_mostly_one_value_are_categories_like_others():
    rng = np.random.default_rng(0)
    gains = np.where(rng.random(400) < 0.9, 0.0, rng.choice([7298.0, 7688.0, 15024.0], 400))
    rows = [
        {"age": float(age), "gain": float(gain)}
        for age, gain in zip(rng.normal(size=400), gains, strict=True)
    ]
    schema = Schema(name="all", features=(Numeric(name="age"), Numeric(name="gain")))
    assert Preprocess(schema, describe(schema, rows)).inputs.bin_columns == (0,)


def test_images_of_the_right_size_keep_their_pixels_and_others_are_resized():
    pixels = np.random.default_rng(0).integers(0, 256, (6, 5, 3), np.uint8)
    larger = np.full((12, 10, 3), 77, np.uint8)
    encoded = tf.stack([tf.io.encode_png(pixels), tf.io.encode_png(larger)])
    decoded = decode_images(encoded, (6, 5, 3), max_pixels=1_000)
    assert decoded.dtype == tf.uint8
    np.testing.assert_array_equal(decoded[0], pixels)
    np.testing.assert_array_equal(decoded[1], np.full((6, 5, 3), 77))


@pytest.mark.parametrize("image_dtype", ["uint8", "bfloat16", "float32"])
def test_images_that_training_decoded_are_what_serving_decodes(image_dtype):
    schema = Schema(name="pictures", features=(Image(name="image"),))
    statistics = SplitStatistics(examples=0, features={})
    preprocess = Preprocess(schema, statistics, image_size=(8, 9), image_dtype=image_dtype)
    encoded = tf.io.encode_png(np.random.default_rng(0).integers(0, 256, (12, 10, 3), np.uint8))
    pixels = training_image(
        encoded,
        tf.constant(0, tf.int64),
        shape=preprocess.inputs.image_shape,
        augmentation=Augmentation(),
        seed=0,
    )
    in_training = normalize(pixels, preprocess.inputs.image_dtype)
    served, trained = (preprocess({"image": batch[None]})["image"] for batch in (encoded, in_training))
    assert served.dtype == image_dtype
    assert tf.reduce_all(served == trained)
    assert (preprocess.inputs.image_rescaling is None) == (image_dtype != "uint8")


def test_an_unknown_image_dtype_is_refused():
    schema = Schema(name="pictures", features=(Image(name="image", height=8, width=8),))
    with pytest.raises(InputError, match=r"--config.image_dtype: received 'float16'; expected one of uint8"):
        Preprocess(schema, SplitStatistics(examples=0, features={}), image_dtype="float16")


def test_images_of_varying_size_need_a_size():
    schema = Schema(name="pictures", features=(Image(name="image"),))
    with pytest.raises(InputError, match=r"Set --config\.image_size"):
        Preprocess(schema, SplitStatistics(examples=0, features={}))
    preprocess = Preprocess(schema, SplitStatistics(examples=0, features={}), image_size=(8, 9))
    assert preprocess.inputs.image_shape == (8, 9, 3)


def test_a_mixed_precision_policy_leaves_preprocessing_in_float32():
    before = tf.keras.mixed_precision.global_policy()
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        outputs = preprocess_of(Numeric(name="x"), [1.0, 2.0, 3.0])({"x": tf.constant([2.5])})
    finally:
        tf.keras.mixed_precision.set_global_policy(before)
    assert outputs["numeric"].dtype == tf.float32


def test_the_same_layers_serve_two_graphs():
    preprocess = preprocess_of(Numeric(name="x"), [1.0, 2.0, 3.0])
    first, second = tf.function(preprocess), tf.function(lambda features: preprocess(features)["numeric"])
    first({"x": tf.constant([1.0])})
    np.testing.assert_allclose(second({"x": tf.constant([2.0])}), [[0.0]], atol=1e-6)


def test_preprocessing_of_tokens_can_be_saved(tmp_path):
    """An export saves it with the model."""
    tf.saved_model.save(preprocess_of(Tokens(name="t", length=2, vocabulary_size=5), [(1, 2)]), str(tmp_path))


# Labels' mean and spread, from what the conversion measured.
PRICE, SICK = Label(name="price", task="regression"), Label(name="sick", classes=("no", "yes"))


def price_statistics(mean: float, std: float) -> SplitStatistics:
    summary = NumericSummary(minimum=0.0, maximum=9.0, mean=mean, std=std, zeros=0, quantiles=())
    price = FeatureStatistics(name="price", dtype="float32", present=9, missing=0, numeric=summary)
    return SplitStatistics(examples=9, features={"price": price})


@pytest.mark.parametrize(
    ("mean", "std", "spread"), [(2000.0, 5.0, 5.0), (1e-6, 1e-7, 1e-7), (-3.0, 0.0, 3.0), (0.0, 0.0, 1.0)]
)
def test_of_a_regression(mean, std, spread):
    assert label_scale(PRICE, price_statistics(mean, std)) == LabelScale(mean=mean, spread=spread)


def test_classes_have_no_unit():
    assert label_scale(SICK, price_statistics(5.0, 2.0)) == LabelScale(mean=0.0, spread=1.0)


# What is learned from statistics needs them.
NONE = "none"


@pytest.mark.parametrize(
    "feature", [Numeric(name="x", statistics=NONE), Categorical(name="x", statistics=NONE)]
)
def test_an_input_without_statistics_to_learn_from_is_refused(feature: Feature):
    with pytest.raises(InputError, match="feature 'x' as a model's input"):
        check_measured(Schema(name="s", features=(feature,)))


def test_others_need_none():
    features = (
        Text(name="t", statistics=NONE),
        Categorical(name="listed", vocabulary=("a",), statistics=NONE),
        Categorical(name="hashed", encoding="hashed", buckets=2, statistics=NONE),
        Label(name="y", task="regression", statistics=NONE),
    )
    check_measured(Schema(name="s", features=features))


def test_rows_of_groups_become_what_they_become_by_themselves():
    """Groups of 3 rows; every type of feature that a group may have."""
    schema = Schema(
        name="groups",
        features=(
            Numeric(name="x", missing="mark"),
            Categorical(name="kind", vocabulary=("a", "b")),
            Categorical(name="shop", encoding="hashed", buckets=7),
            Datetime(name="day"),
            Text(name="title", length=4, buckets=11),
            Label(name="y", task="ranking"),
        ),
        group=Group(column="query", length=3),
    )
    draw = np.random.default_rng(0)
    rows = [
        {
            "x": math.nan if number % 5 == 4 else float(draw.normal()),
            "kind": "abc"[number % 3],
            "shop": f"shop {number}",
            "day": int(1e15) + number * 3_600_000_000,
            "title": f"red shoe {number}",
            "y": number % 2,
        }
        for number in range(12)
    ]
    preprocess = Preprocess(schema, describe(schema.of_rows, rows))
    columns = {each.name: np.array([row[each.name] for row in rows]) for each in schema.inputs}
    flat = preprocess({name: tf.constant(values) for name, values in columns.items()})
    in_groups = tf.function(preprocess)(
        {name: tf.constant(values.reshape(4, 3)) for name, values in columns.items()}
    )
    assert flat.keys() == in_groups.keys() == {"numeric", "categories", "title"}
    for name, values in in_groups.items():
        assert values.shape[:2] == (4, 3)
        np.testing.assert_array_equal(np.reshape(values, (12, -1)), flat[name])
    assert preprocess.inputs.numeric == flat["numeric"].shape[1]
