"""Anybody's model is fitted to data and task: inputs by name, a head where it has none, notes on both."""

import dataclasses

import keras
import numpy as np
import pytest

from pipeline.base.errors import InputError
from pipeline.data.preprocessing.preprocess import ModelInputs
from pipeline.training.experiment.config import Model
from pipeline.training.experiment.model_arguments import arguments_of, pixels_of
from pipeline.training.experiment.model_fit import FittedModel, fit_model

NOTHING = ModelInputs(image_shape=None, numeric=0, cardinalities=(), sequences={})
TABLE = ModelInputs(
    image_shape=None,
    numeric=3,
    cardinalities=(4, 5),
    sequences={},
    columns={"numeric": {"age": (0,), "size": (1, 2)}, "categories": {"job": (0,), "age": (1,)}},
)
PHOTOS = ModelInputs(image_shape=(8, 8, 3), numeric=0, cardinalities=(), sequences={})
TEXT = ModelInputs(image_shape=None, numeric=0, cardinalities=(), sequences={"words": (4, 10)})
RNG = np.random.default_rng(0)


def fitted(make, inputs: ModelInputs, *, outputs: int = 2, has_outputs: bool = False) -> FittedModel:
    return fit_model(
        make,
        thing="--config.model.name=mine",
        where="mine.py",
        inputs=inputs,
        shape=(outputs,),
        has_outputs=has_outputs,
    )


def functional(*inputs: keras.KerasTensor, of=None) -> keras.Model:
    """Gives its inputs, flat and side by side, or what `of` makes of them."""
    flat = [keras.layers.Flatten()(keras.ops.cast(each, "float32")) for each in inputs]
    joined = keras.layers.Concatenate()(flat) if len(flat) > 1 else flat[0]
    return keras.Model(list(inputs), of(*inputs) if of else joined)


def inside(fit: FittedModel, data: dict) -> np.ndarray:
    """What the head gets."""
    head = fit.model.get_layer("logits")
    return np.asarray(
        keras.Model(fit.model.inputs, head.input)([data[each.name] for each in fit.model.inputs])
    )


def table(rows: int = 5) -> dict[str, np.ndarray]:
    return {
        "numeric": RNG.normal(size=(rows, 3)).astype("float32"),
        "categories": RNG.integers(0, 4, (rows, 2)).astype("int32"),
    }


def test_inputs_are_filled_by_the_names_of_features():
    def make():
        names = (("size", (2,), "float32"), ("job", (1,), "int32"), ("age", (1,), "float32"))
        return functional(*(keras.Input(shape, dtype=dtype, name=name) for name, shape, dtype in names))

    fit, data = fitted(make, TABLE), table()
    expected = np.concatenate([data["numeric"][:, 1:], data["categories"][:, :1], data["numeric"][:, :1]], 1)
    np.testing.assert_array_equal(inside(fit, data), expected)
    assert fit.model(data).dtype == "float32"
    assert fit.notes == ("head       2 outputs, float32, on the features [batch, 4], added as 'logits'",)


def test_the_only_tensor_of_a_kind_needs_no_name():
    def make():
        return functional(keras.Input((3,)), keras.Input((2,), dtype="int32"))

    data = table()
    expected = np.concatenate([data["numeric"], data["categories"]], 1)
    np.testing.assert_array_equal(inside(fitted(make, TABLE), data), expected)


def test_what_a_model_has_no_input_for_is_said():
    fit = fitted(lambda: functional(keras.Input((1,), name="age")), TABLE)
    assert fit.notes[-1] == "unused     size, job: the model has no input for them"
    assert fit.model(table()).shape == (5, 2)


def test_a_dict_of_some_inputs_gets_them_and_no_others():
    def make():
        numbers = keras.Input((3,), name="numeric")
        return keras.Model({"numeric": numbers}, numbers + 0.0)

    data = table() | {"categories": np.ones((5, 3), "int32")}  # as wide as the numbers
    inputs = dataclasses.replace(TABLE, cardinalities=(4, 5, 6))
    fit = fitted(make, inputs, outputs=3, has_outputs=True)
    np.testing.assert_array_equal(fit.model(data), data["numeric"])
    assert fit.notes == ("unused     job: the model has no input for them",)


def test_a_head_for_each_token_averages_nothing():
    def make():
        words = keras.Input((4,), dtype="int32", name="words")
        return keras.Model(words, keras.layers.Embedding(10, 3)(words))

    fit = fit_model(make, thing="v", where="v", inputs=TEXT, shape=(4, 7), has_outputs=False)
    words = np.arange(8).reshape(2, 4)
    assert fit.model({"words": words}).shape == (2, 4, 7)
    np.testing.assert_array_equal(inside(fit, {"words": words}), make_features(fit, words))
    assert fit.notes == ("head       7 outputs, float32, on the features [batch, 4, 3], added as 'logits'",)


def make_features(fit: FittedModel, words: np.ndarray) -> np.ndarray:
    [embedding] = [each for each in fit.model._flatten_layers() if isinstance(each, keras.layers.Embedding)]
    return np.asarray(embedding.embeddings)[words]


def test_texts_fill_token_ids_and_their_mask_and_are_averaged_where_words_are():
    def make():
        ids = keras.Input((None,), dtype="int32", name="token_ids")
        mask = keras.Input((None,), dtype="int32", name="padding_mask")
        both = keras.ops.stack([ids, ids * mask], axis=-1)
        return keras.Model({"token_ids": ids, "padding_mask": mask}, keras.ops.cast(both, "float32"))

    words = np.array([[3, 5, 0, 0], [0, 0, 0, 0], [1, 2, 3, 6]], "int32")
    fit = fitted(make, TEXT)
    np.testing.assert_array_equal(inside(fit, {"words": words}), [[4, 4], [0, 0], [3, 3]])
    assert "the average over tokens of the features [batch, 4, 2]" in fit.notes[0]


def test_a_backbone_of_packed_text_is_told_how_to_call_it():
    def make():
        inputs = {
            name: keras.Input((None,), dtype="int32", name=name) for name in ("token_ids", "padding_mask")
        }
        return keras.Model(inputs, keras.layers.Embedding(10, 3)(inputs["token_ids"]))

    packed = dataclasses.replace(TEXT, sequences={"tokens": (4, 10), "segments": (4, 6)})
    with pytest.raises(InputError, match=r"body\(\{'token_ids': tokens, 'padding_mask': .*segments > 1"):
        fitted(make, packed)


@pytest.mark.parametrize(
    ("layers", "lowest", "highest"), [((), -1.0, 1.0), ((keras.layers.Rescaling(1.0),), 0.0, 255.0)]
)
def test_pixels_come_on_the_scale_that_a_model_has_no_layer_for(layers, lowest, highest):
    def make():
        return keras.Sequential([keras.Input((8, 8, 3)), *layers, keras.layers.Flatten()])

    pixels = np.zeros((2, 8, 8, 3), "uint8")
    pixels[1] = 255
    found = inside(fitted(make, PHOTOS), {"image": pixels})
    np.testing.assert_allclose([found[0].min(), found[1].max()], [lowest, highest])


def test_a_model_of_keras_applications_gets_pixels_as_its_family_wants_them():
    function = keras.applications.VGG16
    args = Model(name="vgg", options={}, seed=0)
    gray = ModelInputs(image_shape=(8, 8, 1), numeric=0, cardinalities=(), sequences={})
    arguments = arguments_of(args, function, inputs=gray, outputs=2)
    assert arguments == {"include_top": False, "weights": None, "input_shape": (8, 8, 3)}

    def make():
        return keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Flatten()])

    fit = fit_model(
        make, thing="v", where="v", inputs=gray, shape=(2,), has_outputs=False, pixels=pixels_of(function)
    )
    pixels = RNG.integers(0, 256, (2, 8, 8, 1)).astype("uint8")
    wanted = keras.applications.vgg16.preprocess_input(np.repeat(pixels, 3, axis=-1).astype("float32"))
    np.testing.assert_allclose(inside(fit, {"image": pixels}), wanted.reshape(2, -1), rtol=1e-5)
    assert any("keras.applications.vgg16.preprocess_input" in note for note in fit.notes)
    with pytest.raises(InputError, match=r"model.weights: received 'imagenet'; .*nothing is downloaded"):
        arguments_of(
            Model(name="v", options={"weights": "imagenet"}, seed=0), function, inputs=gray, outputs=2
        )


def test_the_parameters_of_a_class_are_those_that_its_bases_take_too():
    class Net(keras.Model):
        def __init__(self, width=4, **kwargs):
            super().__init__(**kwargs)

    class Functional(keras.Model):
        def __init__(self, width=4, **kwargs):
            x = keras.Input((3,))
            super().__init__(inputs=x, outputs=keras.layers.Dense(width)(x), **kwargs)

    for _ in range(2):  # Keras changes the bases of such a class when one is built
        assert arguments_of(Model(name="f", options={}, seed=0), Functional, inputs=NOTHING, outputs=2) == {}
        Functional()
    args = Model(name="net", options={"width": 2, "trainable": True}, seed=0)
    assert arguments_of(args, Net, inputs=NOTHING, outputs=2) == args.options
    with pytest.raises(InputError, match=r"received deep; expected some of .*width"):
        arguments_of(Model(name="net", options={"deep": 2}, seed=0), Net, inputs=NOTHING, outputs=2)


class OfDict(keras.Model):
    def call(self, inputs):
        return inputs["numeric"] * 2


class OfTuple(keras.Model):
    def call(self, inputs):
        numeric, _ = inputs
        return numeric * 2


class OfNames(keras.Model):
    def call(self, numeric, categories, training=False):
        return numeric + keras.ops.cast(keras.ops.sum(categories, 1, keepdims=True), "float32")


class OfOne(keras.Model):
    def __init__(self):
        super().__init__()
        self.drop = keras.layers.Dropout(0.5)

    def call(self, x, training=False):
        return self.drop(x * 3, training=training)


@pytest.mark.parametrize(("make", "factor"), [(OfDict, 2), (OfTuple, 2), (OfNames, None)])
def test_subclassed_models_are_called_as_their_call_takes_it(make, factor):
    data = table()
    expected = data["numeric"] * factor if factor else data["numeric"] + data["categories"].sum(1)[:, None]
    np.testing.assert_allclose(inside(fitted(make, TABLE), data), expected, rtol=1e-6)


def test_a_model_of_one_argument_gets_the_only_tensor():
    numbers = ModelInputs(image_shape=None, numeric=3, cardinalities=(), sequences={})
    data = {"numeric": table()["numeric"]}
    np.testing.assert_allclose(inside(fitted(OfOne, numbers), data), data["numeric"] * 3, rtol=1e-6)
    dense = fitted(
        lambda: keras.Sequential([keras.layers.Dense(2, dtype="float32")]), numbers, has_outputs=True
    )
    assert (dense.notes, dense.model(data).shape) == ((), (5, 2))


class Broken(keras.Model):
    def call(self, x):
        return x["absent"]


@pytest.mark.parametrize(
    ("make", "inputs", "message"),
    [
        (
            lambda: functional(keras.Input((7,), name="numeric")),
            TABLE,
            r"mine, input 'numeric': received float32 \[batch, 7\]; expected one that the data fill: numeric "
            r"float32 \[batch, 3\], categories int32 \[batch, 2\], or the columns of age, job, size",
        ),
        (
            lambda: functional(keras.Input((2,), name="age")),
            TABLE,
            r"input 'age': received float32 \[batch, 2\]",
        ),
        (lambda: functional(keras.Input((8, 8, 3))), TABLE, r"received float32 \[batch, 8, 8, 3\]"),
        (lambda: functional(keras.Input((16, 16, 3))), PHOTOS, r"Set --config.image_size=16,16"),
        (
            lambda: functional(keras.Input((4,)), keras.Input((4,))),
            TABLE,
            r"input 'keras_tensor.*Name and shape",
        ),
        (
            lambda: functional(keras.Input((3,), name="numeric"), of=lambda x: [x, x * 2]),
            TABLE,
            r"its outputs: received 2 outputs; expected one: logits, or features",
        ),
        (
            lambda: functional(keras.Input((3,), name="numeric"), of=lambda x: {"p4": x, "p5": x * 2}),
            TABLE,
            r"received 2 outputs \(p4, p5\)",
        ),
    ],
    ids=["width", "feature", "no_images", "image_size", "ambiguous", "two_outputs", "pyramid"],
)
def test_what_cannot_be_fitted_is_named(make, inputs, message):
    with pytest.raises(InputError, match=message) as raised:
        fitted(make, inputs)
    assert str(raised.value).isprintable()


def test_a_call_that_takes_none_of_it_raises_what_it_raised_first():
    with pytest.raises(KeyError, match="absent"):
        fitted(Broken, TABLE)


def test_a_head_has_a_name_that_the_model_has_not():
    def make():
        x = keras.Input((3,), name="numeric")
        categories = keras.Input((2,), dtype="int32", name="categories")
        return keras.Model([x, categories], keras.layers.Dense(4, name="logits")(x))

    fit = fitted(make, TABLE)
    assert fit.model(table()).shape == (5, 2)
    assert fit.notes[0].endswith("added as 'logits_of_task'")


def test_a_rescaled_branch_within_a_network_is_no_rescaling_of_pixels():
    def make():
        x = keras.Input((8, 8, 3))
        features = keras.layers.Conv2D(16, 1)(x)
        return keras.Model(x, keras.layers.Flatten()(features + keras.layers.Rescaling(0.1)(features)))

    assert fitted(make, PHOTOS).notes[0].startswith("pixels     0 … 255 × 0.007843 -1")


def test_methods_that_only_fit_would_call_are_named():
    class OwnStep(OfDict):
        def train_step(self, data):
            raise AssertionError

    assert "warning    train_step of OwnStep is not called" in fitted(OwnStep, TABLE).notes[0]
