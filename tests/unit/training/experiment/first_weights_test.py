"""Weights of files that Keras wrote reach the variables of their names, and nothing in a file is run."""

import pathlib
import re
import types
import zipfile

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.training.experiment import first_weights
from pipeline.training.experiment.first_weights import load, match, source_of


def pictures(*, classes: int = 3, dropout: float = 0.0, named: str = "stem") -> keras.Model:
    """Layers with names, without one, in a model of their own, and with statistics."""
    image = keras.Input((6, 6, 1), name="image")
    inner = keras.Input((6, 6, 4))
    within = keras.layers.BatchNormalization(name="norm")(keras.layers.Conv2D(4, 3, name="inner")(inner))
    x = keras.layers.Conv2D(4, 3, padding="same", name=named)(image)
    x = keras.layers.Conv2D(4, 3, padding="same")(keras.layers.Conv2D(4, 3, padding="same")(x))
    x = keras.Model(inner, within, name="backbone")(x)
    x = keras.layers.Dropout(dropout)(keras.layers.GlobalAveragePooling2D()(x))
    return keras.Model(image, keras.layers.Dense(classes, name="head")(x), name="pictures")


def drawn(model: keras.Model, seed: int = 0) -> keras.Model:
    draw = np.random.default_rng(seed)
    model.set_weights([draw.normal(size=each.shape).astype("float32") for each in model.weights])
    return model


@pytest.fixture(autouse=True)
def _names_from_the_start():
    keras.utils.clear_session(free_memory=False)


def exported(model: keras.Model, path: pathlib.Path) -> None:
    archive = keras.export.ExportArchive()
    archive.track(model)
    serve = tf.function(
        model, input_signature=[tf.TensorSpec((None, *model.input_shape[1:]))], autograph=False
    )
    archive.add_endpoint("serve", serve)
    archive.write_out(str(path), verbose=False)


WRITERS = {
    "whole.keras": lambda model, path: model.save(path),
    "some.weights.h5": lambda model, path: model.save_weights(path),
    "legacy.h5": lambda model, path: model.save(path),
    "export": exported,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_variable_has_its_own_again_though_keras_counts_on(name, tmp_path):
    keras.layers.Conv2D(1, 1), keras.layers.Conv2D(1, 1)  # as in a notebook: the model's are 2 and 3
    written = drawn(pictures())
    assert any("conv2d_3" in each.path for each in written.weights)
    WRITERS[name](written, tmp_path / name)
    keras.utils.clear_session(free_memory=False)
    model = pictures(dropout=0.5)
    found = load(model, source_of(str(tmp_path / name)))
    assert sorted(found.arrays) == sorted(each.path for each in model.weights)
    assert not found.not_loaded
    assert not found.not_used
    for before, after in zip(written.get_weights(), model.get_weights(), strict=True):
        assert np.array_equal(before, after)


def test_a_head_of_other_classes_begins_as_the_seed_has_it(tmp_path):
    drawn(pictures()).save(tmp_path / "a.keras")
    keras.utils.clear_session(free_memory=False)
    model = pictures(classes=5)
    head = [np.asarray(each) for each in model.get_layer("head").weights]
    source = source_of(str(tmp_path / "a.keras"))
    found = load(model, source)
    assert found.not_loaded == {
        "head/kernel": "[4, 3] there, [4, 5] here",
        "head/bias": "[3] there, [5] here",
    }
    assert all(map(np.array_equal, head, model.get_layer("head").weights))
    said = found.lines(source)
    begins = f"begins     with 12 of the model's 14 weights from {tmp_path}/a.keras (SHA-256 "
    assert said[0].startswith(begins)
    assert said[0].endswith("); 2 begin at random")
    assert said[1] == "not loaded head/kernel: [4, 3] there, [4, 5] here"
    assert said[3:] == ("not used   head/0", "not used   head/1")


def test_a_backbone_fits_alone_and_inside_another_model(tmp_path):
    layers = (keras.layers.Dense(2, name="one"), keras.layers.Dense(2, name="two"))
    backbone = drawn(keras.Sequential([keras.Input((2,)), *layers], name="backbone"))
    backbone.save_weights(tmp_path / "b.weights.h5")

    class Whole(keras.Model):
        def __init__(self) -> None:
            super().__init__(name="whole")
            self.body = keras.Sequential(
                [keras.layers.Dense(2, name="one"), keras.layers.Dense(2, name="two")], name="backbone"
            )
            self.head = keras.layers.Dense(1, name="head")

        def call(self, x: tf.Tensor) -> tf.Tensor:
            return self.head(self.body(x))

    model = Whole()
    model(np.zeros((1, 2), "float32"))
    found = load(model, source_of(str(tmp_path / "b.weights.h5")))
    assert sorted(found.not_loaded) == ["whole/head/bias", "whole/head/kernel"]
    assert all(map(np.array_equal, backbone.get_weights(), model.body.get_weights()))


def test_a_name_that_could_be_two_variables_is_neither():
    x = keras.Input((2,))
    model = keras.Model(x, keras.layers.Dense(2, name="one")(x))
    arrays = {f"{tower}/one/kernel": np.ones((2, 2), "float32") for tower in ("left", "right")}
    assert match(model, arrays | {"left/one/bias": np.ones(2, "float32")}).arrays.keys() == {"one/bias"}


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["a.weights.h5", "a.keras"])
def test_numbers_of_fewer_bits_become_float32(kind, name, tmp_path):
    def one(dtype: str) -> keras.Model:
        layer = keras.layers.Dense(1, name="one", use_bias=False, dtype=keras.DTypePolicy(dtype))
        return keras.Sequential([keras.Input((1,)), layer])

    narrow, model = one(kind), one("float32")
    narrow.set_weights([np.array([[1.5]])])
    (narrow.save if name.endswith("keras") else narrow.save_weights)(tmp_path / name)
    load(model, source_of(str(tmp_path / name)))
    assert model.get_weights()[0].tolist() == [[1.5]]


def test_weights_that_share_a_name_are_listed():
    def tower(name: str) -> keras.Model:
        inner = keras.Input((3,))
        return keras.Model(inner, keras.layers.Dense(2, name="proj")(inner), name=name)

    towers = [keras.Input((3,), name=name) for name in ("query", "item")]
    both = [tower(f"{each.name}_tower")(each) for each in towers]
    model = keras.Model(towers, keras.layers.Dense(1, name="head")(keras.layers.concatenate(both)))
    found = match(model, {each.path: each.numpy() for each in model.weights})
    assert set(found.arrays) == {"head/kernel", "head/bias"}
    assert found.not_loaded == dict.fromkeys(("proj/kernel", "proj/bias"), "2 weights here have this name")


def test_an_optimizer_and_metrics_in_a_file_are_no_weights(tmp_path):
    model = pictures()
    model.compile("adam", "mse", metrics=["mae"])
    model.train_on_batch(np.zeros((2, 6, 6, 1)), np.zeros((2, 3)))
    model.save(tmp_path / "a.keras")
    keras.utils.clear_session(free_memory=False)
    found = load(pictures(), source_of(str(tmp_path / "a.keras")))
    assert not found.not_used


def test_a_link_out_of_a_file_is_not_followed(tmp_path):
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["vars/0"] = np.ones((2, 2), "float32")
    with h5py.File(tmp_path / "a.weights.h5", "w") as file:
        file.create_group("layers")["one"] = h5py.ExternalLink("secret.h5", "/")
        file["model_weights"] = h5py.ExternalLink("secret.h5", "/")
    with pytest.raises(InputError, match="but none at all"):
        load(pictures(), source_of(str(tmp_path / "a.weights.h5")))


def test_code_in_a_file_is_not_run(tmp_path):
    touched = tmp_path / "touched"
    x = keras.Input((2,))

    def code(value: tf.Tensor, path: str = str(touched)) -> tf.Tensor:
        pathlib.Path(path).touch()
        return value

    hidden = keras.layers.Dense(2, name="one")(x)
    keras.Model(x, keras.layers.Lambda(code)(hidden)).save(tmp_path / "lambda.keras")
    touched.unlink()
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, name="one")])
    assert len(load(model, source_of(str(tmp_path / "lambda.keras"))).arrays) == 2
    assert not touched.exists()


def kept_elsewhere(path: pathlib.Path) -> None:
    (path.parent / "secret").write_bytes(b"12345678")
    with h5py.File(path, "w") as file:
        group = file.create_group("layers/dense/vars")
        group.create_dataset("0", (2,), "f4", external=[(str(path.parent / "secret"), 0, 8)])


def empty(path: pathlib.Path) -> None:
    with h5py.File(path, "w") as file:
        file["layers/dense/vars/0"] = h5py.Empty("f4")


def vast(path: pathlib.Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("layers/dense/vars/0", (1 << 45,), "f4", chunks=(1 << 20,))


def broken_archive(path: pathlib.Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.weights.h5", "0" * 99)
    data = bytearray(path.read_bytes())
    data[30 + len("model.weights.h5")] = 0xFF
    path.write_bytes(data)


def misspelt(path: pathlib.Path) -> None:
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(9, name="haed")]).save(path)


@pytest.mark.parametrize(
    ("name", "write", "received"),
    [
        ("none.keras", lambda path: None, "no such file or directory"),
        (
            "a.pt",
            lambda path: path.write_bytes(b""),
            "a file of another kind; expected a --workdir, an export",
        ),
        (
            "a.keras",
            lambda path: path.write_bytes(b"no zip"),
            "a file that cannot be read (File is not a zip",
        ),
        ("a.weights.h5", lambda path: path.write_bytes(b"no HDF5"), "a file that cannot be read (Unable to"),
        (
            "b.weights.h5",
            kept_elsewhere,
            "a file that cannot be read (layers/dense/vars/0 is kept in another",
        ),
        ("c.weights.h5", empty, "a file that cannot be read (layers/dense/vars/0 holds nothing"),
        (
            "d.weights.h5",
            vast,
            "a file that cannot be read (layers/dense/vars/0 declares 140,737,488,355,328 bytes and holds 0)",
        ),
        ("e.keras", broken_archive, "a file that cannot be read (Error -3 while decompressing"),
        ("folder", pathlib.Path.mkdir, "a directory without run.json"),
        (
            "other.keras",
            misspelt,
            "no weight of this model's (stem/kernel: no such name there), but haed/0, haed/1; expected some "
            "of stem/kernel, stem/bias, conv2d_1/kernel, conv2d_1/bias, conv2d/kernel, conv2d/bias and 8 "
            "more, each of its shape. 'haed/0' there is nearest to 'head/0' here; build the model with the",
        ),
    ],
)
def test_what_gives_no_weights_is_refused_by_name(name, write, received, tmp_path):
    write(tmp_path / name)
    model = pictures()
    with pytest.raises(
        InputError, match=re.escape(f"--config.init.source={tmp_path}/{name}: received {received}")
    ):
        load(model, source_of(str(tmp_path / name)))


def test_weights_that_are_not_finite_are_refused(tmp_path):
    model = pictures()
    model.get_layer("stem").bias.assign([np.nan, 0.0, 0.0, 0.0])
    model.save_weights(tmp_path / "a.weights.h5")
    with pytest.raises(InputError, match=r"received stem/bias with values that are infinite or not a number"):
        load(pictures(), source_of(str(tmp_path / "a.weights.h5")))


def test_a_head_of_the_same_size_is_left_out_by_a_pattern(tmp_path):
    drawn(pictures()).save_weights(tmp_path / "a.weights.h5")
    model = pictures()
    before = [np.asarray(each) for each in model.get_layer("head").weights]
    found = load(model, source_of(str(tmp_path / "a.weights.h5")), without=("head/*",))
    assert all(map(np.array_equal, before, model.get_layer("head").weights))
    assert set(found.not_loaded.values()) >= {"left out by config.init.without"}
    with pytest.raises(
        InputError, match=r"--config\.init\.without: received 'haed/\*', which matches no variable"
    ):
        load(model, source_of(str(tmp_path / "a.weights.h5")), without=("haed/*",))


def test_averages_that_share_a_name_are_none(monkeypatch):
    names = {"model/0000": "hidden/kernel", "model/0001": "hidden/kernel", "model/0002": "out/kernel"}
    names |= {f"ema/{name[6:]}": path for name, path in names.items()}
    values = {name: np.full(2, number, "float32") for number, name in enumerate(names)}
    monkeypatch.setattr(first_weights, "load_tensors", lambda path: values)
    monkeypatch.setattr(
        first_weights.checkpoints, "read_manifest", lambda path: types.SimpleNamespace(variables=names)
    )
    found = first_weights._run_arrays(types.SimpleNamespace(checkpoint=None))
    assert {name: array[0] for name, array in found.items()} == {"out/kernel": 5.0}
