"""A config and a dataset's inputs become a model, or an error that names what does not fit."""

import re
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from ml_collections import ConfigDict

from pipeline.base.errors import InputError
from pipeline.configs import base
from pipeline.data.dataset.statistics import FeatureStatistics, NumericSummary, SplitStatistics
from pipeline.data.preprocessing.preprocess import LabelScale, ModelInputs
from pipeline.data.schema.feature_types import Image, Label
from pipeline.data.schema.schema import Schema
from pipeline.training.engine.precision import Precision
from pipeline.training.experiment import model as model_lib
from pipeline.training.experiment import model_code
from pipeline.training.experiment.code import Code
from pipeline.training.experiment.config import Model, Place
from pipeline.training.experiment.model import matching
from pipeline.training.experiment.model_arguments import arguments_of
from tests.shared.parsed import parsed

BINARY = Label(name="y", classes=("no", "yes"))
TABLE = ModelInputs(image_shape=None, numeric=2, cardinalities=(3,), sequences={})
PACKED = ModelInputs(
    image_shape=None, numeric=0, cardinalities=(), sequences={"tokens": (16, 30), "segments": (16, 18)}
)
PICTURES = ModelInputs(image_shape=(8, 8, 1), numeric=0, cardinalities=(), sequences={})


def model_of(inputs: ModelInputs, label: Label = BINARY, **model):
    config = base.get_config()
    config.model = ConfigDict(model)
    schema = Schema(name="any", features=(label,))
    precision = Precision(policy="float32", reason="")
    return model_lib.build_model(parsed(config).model, schema=schema, inputs=inputs, precision=precision)


@pytest.mark.parametrize(
    ("label", "outputs"),
    [
        (BINARY, 1),
        (Label(name="y", task="multiclass", classes=("a", "b", "c")), 3),
        (Label(name="y", task="regression"), 1),
    ],
)
def test_outputs_follow_from_the_label(label, outputs):
    assert model_of(TABLE, label, name="wide_deep").output_shape == (None, outputs)


def test_a_regression_answers_in_the_unit_of_its_label():
    config = base.get_config()
    config.model = ConfigDict({"name": "wide_deep"})
    scaled = model_lib.build_model(
        parsed(config).model,
        schema=Schema(name="any", features=(Label(name="y", task="regression"),)),
        inputs=TABLE,
        precision=Precision(policy="mixed_bfloat16", reason=""),
        scale=LabelScale(mean=2000.0, spread=5.0),
    )
    inputs = {"numeric": np.zeros((1, 2), "float32"), "categories": np.zeros((1, 1), "int32")}
    assert scaled(inputs).dtype == "float32"
    scaled.set_weights([np.zeros_like(each) for each in scaled.get_weights()])
    np.testing.assert_array_equal(scaled(inputs), [[2000.0]])


def scale_of(std: float, *, mean: float = 7.0, is_asked: bool = True) -> LabelScale:
    """By which a regression learns labels of this mean and deviation."""
    summary = NumericSummary(minimum=0.0, maximum=9.0, mean=mean, std=std, zeros=0, quantiles=())
    price = FeatureStatistics(name="y", dtype="float32", present=9, missing=0, numeric=summary)
    statistics = SplitStatistics(examples=9, features={"y": price})
    config = base.get_config()
    config.train.standardise_labels = is_asked
    return model_lib.learned_scale(parsed(config).loss, Label(name="y", task="regression"), statistics)


@pytest.mark.parametrize(("is_asked", "mean"), [(True, 7.0), (False, 0.0)])
def test_labels_are_standardised_where_that_is_asked_for(is_asked, mean):
    assert scale_of(2.0, is_asked=is_asked).mean == mean


def test_labels_whose_squares_float32_cannot_hold_are_refused():
    assert [scale_of(std, mean=0.0).spread for std in (1e-18, 1e17)] == [1e-18, 1e17]
    for std in (1e-19, 1e18, float("inf")):
        with pytest.raises(
            InputError,
            match=rf"label 'y': received values .* of {re.escape(f'{std:.3g}')} in the train split, from 0 "
            r"over 0 in the middle to 9; .*another unit",
        ):
            scale_of(std, mean=0.0)


def test_sizes_follow_from_the_inputs():
    model = model_of(PICTURES, name="resnet", widths=(4,), blocks_per_stage=1)
    assert [tensor.shape for tensor in model.inputs] == [(None, 8, 8, 1)]


def test_the_same_seed_gives_the_same_weights():
    first, second = (model_of(TABLE, name="wide_deep").get_weights() for _ in range(2))
    assert all((a == b).all() for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("inputs", "model", "message"),
    [
        (
            TABLE,
            {"name": "vgg"},
            r"--config.model.name: received 'vgg'; expected one of bag_of_ngrams, dcn, resnet, resnet18,",
        ),
        (TABLE, {"name": "wide_deep", "depth": 3}, r"received depth; expected some of dropout, embedding"),
        (TABLE, {"name": "wide_deep", "outputs": 3}, r"received outputs; expected some of"),
        (TABLE, {"name": "resnet"}, r"received 'resnet', which needs images"),
        (PICTURES, {"name": "wide_deep"}, r"wide_deep needs numeric, categorical or sequence inputs"),
        (PICTURES, {"name": "resnet", "stem_stride": 3}, r"stem_stride must be 0, 1, 2 or 4"),
    ],
)
def test_what_does_not_fit_is_refused(inputs, model, message):
    with pytest.raises(InputError, match=message):
        model_of(inputs, **model)


def test_images_of_varying_size_need_a_size():
    schema = Schema(name="photos", features=(Image(name="image"), BINARY))
    config = base.get_config()
    statistics = SplitStatistics(examples=1, features={})
    with pytest.raises(InputError, match=r"'image': received no fixed size.*--config.image_size=224,224"):
        model_lib.build_preprocess(parsed(config).data, schema, statistics)
    config.image_size = (32, 48)
    assert model_lib.build_preprocess(parsed(config).data, schema, statistics).inputs.image_shape == (
        32,
        48,
        3,
    )


def built(monkeypatch, make, policy: str = "float32") -> keras.Model:
    """A regression's model of two numbers, as `make` gives it."""

    def headless(numeric: int, outputs: int) -> keras.Model:
        inputs = keras.Input((numeric,), name="numeric")
        return make(inputs)

    monkeypatch.setitem(model_lib.MODELS, "headless", headless)
    config = base.get_config()
    config.model = ConfigDict({"name": "headless"})
    schema = Schema(name="s", features=(Label(name="y", task="regression"),))
    precision = Precision(policy=policy, reason="asked for")
    inputs = ModelInputs(numeric=2, image_shape=None, cardinalities=(), sequences={})
    return model_lib.build_model(parsed(config).model, schema=schema, inputs=inputs, precision=precision)


def headless_code() -> Code:
    return model_code.locate(Model(name="headless", options={}, seed=0))


def test_logits_that_are_not_float32_are_refused(monkeypatch):
    def make(inputs: keras.KerasTensor) -> keras.Model:
        return keras.Model({"numeric": inputs}, keras.layers.Dense(1)(inputs))

    assert built(monkeypatch, make).output.dtype == "float32"
    with pytest.raises(
        InputError, match=r'its logits: received bfloat16; expected float32 .*dtype="float32"'
    ):
        built(monkeypatch, make, "mixed_bfloat16")


@pytest.mark.parametrize(
    ("outputs_of", "message"),
    [
        # Beside labels [batch, 1], the squared error of two outputs is that of no pair that anybody meant.
        (keras.layers.Dense(2), r"its logits: received shape \[None, 2\]; expected .* shape \[None, 1\]"),
        (keras.layers.Flatten(), r"its logits: received shape \[None, 2\]; expected .*, in models/"),
        (lambda x: [keras.layers.Dense(1)(x)] * 2, r"its logits: received 2 outputs; expected one tensor"),
        (keras.layers.Dense(1, name="größe"), r"layer 'größe': received a name that TensorFlow's graphs"),
        (
            lambda x: keras.layers.Dense(1)(Scaled(name="scaled")(x)),
            r"scaled., scale: received a tf\.Variable",
        ),
        (keras.layers.Dense(1, trainable=False), r"headless: received a model without a trainable weight; "),
    ],
)
def test_what_cannot_be_trained_on_the_label_is_refused(monkeypatch, outputs_of, message):
    with pytest.raises(InputError, match=message):
        built(monkeypatch, lambda x: keras.Model({"numeric": x}, outputs_of(x)))


# What fails in a model's own code is one line of plain text: layer, file and line.


class Scaled(keras.layers.Layer):
    """Its scale is a variable that Keras does not know."""

    def build(self, shape):
        self.scale = tf.Variable(tf.ones([shape[-1]]))

    def call(self, x):
        return x * tf.cast(self.scale, x.dtype)


class Shifted(keras.layers.Layer):
    def call(self, x):
        return x + tf.constant([0.5, 1.5])


class Whole(keras.Model):
    def call(self, x):
        return x["numeric"]


class Lacking(keras.layers.Layer):
    def call(self, x: dict[str, tf.Tensor]) -> tf.Tensor:
        return x["absent"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda x: keras.Model(
                {"numeric": x}, keras.layers.Dense(1, dtype="float32")(Shifted(name="s")(x))
            ),
            r"headless, layer 's': received .*bfloat16.*model_test.py, line \d+\. .*--precision=float32 ",
        ),
        (
            lambda x: Whole(),
            r"headless, its logits: received shape \[None, 2\]; expected one tensor of shape \[None, 1\]",
        ),
        (lambda x: None, r"headless: received an object of the class NoneType; .*a keras.Model\. In models/"),
        (
            lambda x: keras.Model({"numeric": x}, keras.layers.Dense(1)(x)).load_weights("no.weights.h5"),
            r"headless: received .*no.weights.h5.*Correct .*model_test.py, line",
        ),
        (
            lambda x: keras.models.load_model("no.keras"),
            r"headless: received .*no.keras.*model_test.py, line",
        ),
        (lambda x: keras.layers.Conv2D(1, 3)(x), r"headless: received .*model_test.py, line"),
        (lambda x: {}["absent"], r"headless: received KeyError: 'absent'.*model_test.py, line"),
        (
            lambda x: keras.Model({"numeric": x}, Lacking(name="l")({"numeric": x})),
            r"headless, layer 'l': received KeyError: [^\\]*'absent'; expected",
        ),
        (lambda x: int("two"), r"headless: received ValueError: .*'two'; .* Correct .*model_test.py, line"),
        (lambda x: sys.exit(3), r"headless: received SystemExit: 3; .*model_test.py, line"),
    ],
    ids=["precision", "subclassed", "none", "weights", "saved", "shape", "key", "layer", "value", "exit"],
)
def test_what_fails_in_a_models_code_is_one_line_that_names_the_place(monkeypatch, make, message):
    with pytest.raises(InputError, match=message) as raised:
        built(monkeypatch, make, "mixed_bfloat16")
    assert str(raised.value).isprintable(), str(raised.value)


# The same of a file of one's own: it is named, and nothing of models/.

OWN = """import keras

def build({parameters}):
    x = keras.Input((2,), name="numeric")
    return {returned}
"""
DENSE = "keras.Model(x, keras.layers.Dense({})(x))"


@pytest.mark.parametrize(
    ("parameters", "returned", "options", "message"),
    [
        ("", DENSE.format("3, activation='softmax'"), {}, r"logits: received bfloat16; .*dtype=\"float32\""),
        (
            "outputs",
            DENSE.format("outputs, activation='sigmoid', dtype='float32'"),
            {},
            r"received what a sigmoid gives; expected logits: .*Take sigmoid off .*own_1\.py",
        ),
        ("outputs", DENSE.format("5"), {}, r"logits: received shape \[None, 5\]; .*in .*own_2\.py"),
        ("outputs", "x", {}, r"own_3:build: received an object of the class KerasTensor; .*own_3\.py"),
        ("outputs", "keras.Model(x, keras.layers.Conv2D(2, 3)(x))", {}, r"ValueError|received .*own_4.*Conv"),
        ("outputs", "absent(x)", {}, r"own_5:build: received NameError: .*Correct .*own_5\.py, line 5\."),
        ("", "keras.Model(x, [x, x])", {}, r"own_6:build, its outputs: received 2 outputs; .*own_6\.py"),
        ("depth", "None", {}, r"of 'own_7:build': received no value of depth; expected options"),
        (
            "width=3",
            "None",
            {"widht": 3},
            r"received widht; expected some of width\. Did you mean --config\.model",
        ),
        ("", "None", {"width": 3}, r"received width; expected none: it takes no arguments"),
        (
            "outputs",
            DENSE.format("outputs, trainable=False, dtype='float32'"),
            {},
            r"without a trainable weight",
        ),
        (
            "",
            "keras.Model(keras.Input((9,), name='pages'), x)",
            {},
            r"own_11:build: received .*own_11\.py, line 5",
        ),
        (
            "",
            "keras.Sequential([keras.Input((9,)), keras.layers.Dense(1)])",
            {},
            r"received float32 \[batch, 9\]",
        ),
    ],
)
def test_what_is_wrong_with_an_own_file_is_one_line_that_names_it(
    tmp_path, monkeypatch, request, parameters, returned, options, message
):
    module = f"own_{request.node.callspec.indices['parameters']}"
    (tmp_path / f"{module}.py").write_text(OWN.format(parameters=parameters, returned=returned))
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(InputError, match=message) as raised:
        model_lib.build_model(
            Model(name=f"{module}:build", options=options, seed=0, place=Place(folder=str(tmp_path))),
            schema=Schema(name="s", features=(Label(name="y", task="multiclass", classes=("a", "b", "c")),)),
            inputs=ModelInputs(numeric=2, image_shape=None, cardinalities=(), sequences={}),
            precision=Precision(policy="mixed_bfloat16", reason=""),
        )
    assert str(raised.value).isprintable()


def test_what_fails_when_the_graph_runs_names_the_place_too(monkeypatch):
    class Sevens(keras.layers.Layer):
        def call(self, x):
            return keras.ops.reshape(x, (-1, 7))[:, :1]

    def make(inputs: keras.KerasTensor) -> keras.Model:
        hidden = Sevens(name="sevens")(keras.layers.Dense(2)(inputs))
        return keras.Model([inputs], keras.layers.Dense(1)(hidden))

    signature = [tf.TensorSpec([None, 2])]
    step = tf.function(built(monkeypatch, make), autograph=False, input_signature=signature)
    message = (
        r"headless, operation '.*sevens.*': received InvalidArgumentError: .*reshape.* Correct .*model_test"
    )
    with pytest.raises(InputError, match=message) as raised, model_lib.naming_layer(headless_code()):
        step(tf.zeros([3, 2]))
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 600


def test_the_advice_on_a_layer_that_mixes_precisions_helps(monkeypatch):
    class Cast(Shifted):
        def call(self, x):
            return x + tf.cast([0.5, 1.5], self.compute_dtype)

    for layer, policy in ((Shifted, "float32"), (Cast, "mixed_bfloat16")):
        head = keras.layers.Dense(1, dtype="float32")
        model = built(monkeypatch, lambda x, top=head, of=layer: keras.Model([x], top(of()(x))), policy)
        assert model.output.dtype == "float32"


def test_a_mistake_that_is_not_in_the_models_code_is_not_laid_to_it(monkeypatch):
    monkeypatch.setitem(model_lib.MODELS, "headless", keras.Sequential)
    with pytest.raises(ZeroDivisionError), model_lib.naming_layer(headless_code()):
        _ = 1 / 0


# Patterns choose variables by their path.

KEY = "optimizer.not_decayed"


def variables() -> list[keras.Variable]:
    layers = [keras.layers.Dense(1, use_bias=False, name=name) for name in ("block_1", "Block_12")]
    for layer in layers:
        layer.build((None, 1))
    return [layer.kernel for layer in layers]


@pytest.mark.parametrize(
    ("patterns", "chosen"),
    [((), []), (("block_1/*",), [0]), (("Block*",), [1]), (("block_1*", "*kernel"), [0, 1])],
)
def test_capitals_count_and_each_comes_once(patterns, chosen):
    both = variables()
    found = matching(patterns, both, key=KEY)
    assert [each.path for each in found] == [both[number].path for number in chosen]


def test_every_pattern_must_match():
    message = r"optimizer.not_decayed: received 'head/\*'.*patterns of Block_12/kernel, block_1/kernel"
    with pytest.raises(InputError, match=message):
        matching(("*", "head/*"), variables(), key=KEY)


def normalised(**settings: object) -> keras.Model:
    x = keras.Input((3,), name="x")
    hidden = keras.layers.Dense(4, name="stem", dtype="float32")(x)
    hidden = keras.layers.BatchNormalization(name="norm", dtype="float32", **settings)(hidden)
    return keras.Model([x], keras.layers.Dense(1, name="head", dtype="float32")(hidden))


def test_a_frozen_layer_keeps_its_statistics_and_uses_them():
    model, x = normalised(), np.random.default_rng(0).normal(5.0, size=(8, 3)).astype("float32")
    model_lib.freeze(model, ("stem/*", "norm/*"))
    assert [each.path for each in model.trainable_variables] == ["head/kernel", "head/bias"]
    before = model.get_weights()
    assert np.array_equal(model([x], training=True), model([x], training=False))
    assert all(map(np.array_equal, before, model.get_weights()))


def test_single_weights_can_be_frozen_while_their_layer_trains():
    model, x = normalised(), np.random.default_rng(0).normal(5.0, size=(8, 3)).astype("float32")
    model_lib.freeze(model, ("*/kernel", "*/gamma"))
    assert {each.path for each in model.trainable_variables} == {"stem/bias", "norm/beta", "head/bias"}
    before = np.asarray(model.get_layer("norm").moving_mean)
    model([x], training=True)
    assert not np.array_equal(before, model.get_layer("norm").moving_mean)


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (("steam/*",), "'steam/*', which matches no variable; expected patterns of head/bias, head/kernel"),
        (("*",), "('*',); expected patterns that leave a weight to train"),
        (
            ("norm/moving_mean",),
            "patterns of norm/moving_mean, and not of all weights of layer 'norm'; expected statistics that",
        ),
    ],
)
def test_what_cannot_be_frozen_is_refused(patterns, message):
    with pytest.raises(InputError, match=re.escape(f"--config.train.frozen: received {message}")):
        model_lib.freeze(normalised(), patterns)


def test_sizes_of_the_tokens_are_filled_beside_segments():
    def made(vocabulary_size, sequence_length, outputs): ...

    def other(width): ...

    own = Model(name="own", options={}, seed=0)
    filled = arguments_of(own, made, inputs=PACKED, outputs=29)
    assert filled == {"vocabulary_size": 30, "sequence_length": 16, "outputs": 29}
    names = (
        r"num_classes=29, outputs=29, sequence_length=16, sequences=\{'tokens': \(16, 30\), .*vocab_size=30"
    )
    with pytest.raises(InputError, match=rf"'own': received no value of width; expected .*{names}"):
        arguments_of(own, other, inputs=PACKED, outputs=29)
