"""`model.keras` in an export: the model without preprocessing, which plain Keras loads and trains on."""

import importlib
import json
import pathlib
import zipfile
from collections.abc import Iterator

import keras

from pipeline.exporting.runtimes import KERAS_FILE

_KNOWN = ("keras", "builtins")  # packages whose objects Keras finds by itself


def save(model: keras.Model, directory: pathlib.Path) -> str:
    """Writes the file. Returns the reason if Keras cannot save the model; else an empty text."""
    path = directory / KERAS_FILE
    try:
        model.save(path)
    except Exception as error:  # a model's own get_config may raise anything
        path.unlink(missing_ok=True)
        return reason(error)
    return ""


def load(path: pathlib.Path) -> keras.Model:
    """Imports the modules of the model's objects, and loads it."""
    objects = {}
    for name, place in custom_objects(path).items():
        module, _, attribute = place.partition(":")
        objects[name] = getattr(importlib.import_module(module), attribute)
    return keras.saving.load_model(path, custom_objects=objects, compile=False)


def custom_objects(path: pathlib.Path) -> dict[str, str]:
    """Returns the places of the classes and functions that Keras does not have: `module:name` by name."""
    with zipfile.ZipFile(path) as archive:
        config = json.loads(archive.read("config.json"))
    return dict(sorted(_custom(config)))


def _custom(config: object) -> Iterator[tuple[str, str]]:
    """Yields name and place of all objects in a config that belong to a module outside Keras."""
    if isinstance(config, list):
        for each in config:
            yield from _custom(each)
    if isinstance(config, dict):
        module = config.get("module")
        if isinstance(module, str) and "class_name" in config and module.split(".")[0] not in _KNOWN:
            name = config["config"] if config["class_name"] == "function" else config["class_name"]
            yield config.get("registered_name") or name, f"{module}:{name}"
        for each in config.values():
            yield from _custom(each)


def reason(error: Exception) -> str:
    """Returns an error in one line."""
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}"
