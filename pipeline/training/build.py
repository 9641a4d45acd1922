"""The preprocessing and the model that a config and a dataset ask for."""

import inspect
from collections.abc import Callable

import keras
from ml_collections import ConfigDict

from models.registry import MODELS
from pipeline.data.errors import InputError
from pipeline.data.preprocess import ModelInputs, Preprocess
from pipeline.data.schema import Schema
from pipeline.data.statistics import SplitStatistics
from pipeline.training import heads
from pipeline.training.precision import Precision


def build_preprocess(config: ConfigDict, schema: Schema, statistics: SplitStatistics) -> Preprocess:
    size = tuple(config.image_size)
    return Preprocess(
        schema, statistics, image_size=size if any(size) else None, image_dtype=config.image_dtype
    )


def build_model(
    config: ConfigDict, *, schema: Schema, inputs: ModelInputs, precision: Precision
) -> keras.Model:
    """Builds `config.model.name`; the rest of `config.model` are that function's own keyword arguments.

    Raises:
      InputError: there is no such model, it lacks an input or an option, or refuses an option's value.
    """
    options = dict(config.model)
    name = options.pop("name")
    if name not in MODELS:
        raise _error("--config.model.name", repr(name), f"one of {', '.join(MODELS)}")
    _require_known_options(name, options)
    keras.utils.set_random_seed(config.seed)  # the weights' start is part of the experiment
    with precision.scope():
        try:
            return MODELS[name](outputs=heads.outputs(schema.label), **_sizes(name, inputs), **options)
        except (ValueError, TypeError) as error:
            raise _error("--config.model", f"{name} with {options}", str(error)) from None


def _sizes(name: str, inputs: ModelInputs) -> dict[str, object]:
    """The sizes that the model's function asks for by name."""
    sizes = {key: value for key, value in vars(inputs).items() if key in _parameters(MODELS[name])}
    if sizes.get("image_shape", ()) is None:
        raise _error("--config.model.name", f"'{name}', which needs images", "a model for tabular data")
    return sizes


def _require_known_options(name: str, options: dict[str, object]) -> None:
    known = _parameters(MODELS[name]) - set(inspect.get_annotations(ModelInputs)) - {"outputs"}
    unknown = sorted(set(options) - known)
    if unknown:
        raise _error(f"--config.model of '{name}'", ", ".join(unknown), f"some of {', '.join(sorted(known))}")


def _parameters(function: Callable) -> set[str]:
    return set(inspect.signature(function).parameters)


def _error(thing: str, received: str, expected: str) -> InputError:
    action = "Correct it in the config file or on the command line."
    return InputError(thing, received=received, expected=expected, action=action)
