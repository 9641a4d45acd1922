"""The arguments that a model's function or class gets: from the data, from the task, and from the config."""

import inspect
import pathlib
import sys
from collections.abc import Callable, Mapping

import keras

from pipeline.base.errors import InputError, did_you_mean
from pipeline.data.preprocessing.preprocess import ModelInputs
from pipeline.data.schema.schema import SEGMENTS
from pipeline.training.experiment import config as config_lib
from pipeline.training.experiment.model_fit import Pixels

# Parameters for the number of outputs. A model function with one of them returns logits.
OUTPUTS = frozenset({"outputs", "num_classes"})
_APPLICATIONS = "keras.src.applications."
_COLORS = 3
_CORRECT = "Correct it in the config file or on the command line."
_LONGEST = 60  # characters of a value in an error


def arguments_of(
    args: config_lib.Model, function: Callable, *, inputs: ModelInputs, outputs: int
) -> dict[str, object]:
    """Returns keyword arguments: those that the data and the task fill, by the names of parameters, and the
    options.

    Raises:
      InputError: an option is not one of the function's parameters; or a parameter without a default has no
        value.
    """
    parameters, takes_any = parameters_of(function)
    filled = _filled(function, inputs, outputs)
    known = {name for name in parameters if name not in _FROM_DATA | OUTPUTS}
    unknown = sorted(set(args.options) - known)
    if unknown and (not takes_any or not set(unknown).isdisjoint(_FROM_DATA | OUTPUTS)):
        expected = f"some of {', '.join(sorted(known))}" if known else "none: it takes no arguments"
        raise InputError(
            f"--config.model of '{args.name}'",
            received=", ".join(unknown),
            expected=expected,
            action=did_you_mean(unknown[0], sorted(known), otherwise=_CORRECT, form="--config.model.{}"),
        )
    given = {name: value for name, value in filled.items() if name in parameters}
    if given.get("image_shape", ()) is None:
        if parameters["image_shape"].default is inspect.Parameter.empty:
            raise _error(
                "--config.model.name", f"'{args.name}', which needs images", "a model for other data"
            )
        del given["image_shape"]
    arguments = {**_defaults(function), **given, **args.options}
    lacking = [
        name for name, each in parameters.items() if each.default is each.empty and name not in arguments
    ]
    if lacking:
        raise InputError(
            f"--config.model of '{args.name}'",
            received=f"no value of {', '.join(sorted(lacking))}",
            expected=f"options, or names that the data fill: {', '.join(_described(filled))}",
            action=f"Rename the parameter, set --config.model.{sorted(lacking)[0]}, or give it a default.",
        )
    _require_local(arguments, function)
    return arguments


_FROM_DATA = frozenset(inspect.get_annotations(ModelInputs)) - {"columns"}


def _filled(function: Callable, inputs: ModelInputs, outputs: int) -> dict[str, object]:
    """The values that the data and the task give, by the names that functions use for them."""
    filled: dict[str, object] = {name: getattr(inputs, name) for name in _FROM_DATA}
    filled |= dict.fromkeys(OUTPUTS, outputs)
    if inputs.image_shape:
        shape = (*inputs.image_shape[:2], _COLORS) if _family(function) else inputs.image_shape
        filled["input_shape"] = shape
    elif inputs.numeric and not inputs.cardinalities and not inputs.sequences:
        filled["input_shape"] = (inputs.numeric,)
    sequences = {name: each for name, each in inputs.sequences.items() if name != SEGMENTS}
    if len(sequences) == 1:
        ((length, size),) = sequences.values()
        filled |= dict.fromkeys(("vocabulary_size", "vocab_size"), size)
        filled |= dict.fromkeys(("sequence_length", "max_sequence_length"), length)
    return filled


def _described(filled: Mapping[str, object]) -> list[str]:
    """The names of what the data and the task give, with the values of those that are not 0 or empty; of
    long values only the names.
    """
    has_images = bool(filled["image_shape"])
    named = {name: each for name, each in filled.items() if has_images or not name.startswith("image_")}
    written = {name: f"{name}={value}" for name, value in named.items() if value}
    return sorted(text if len(text) <= _LONGEST else name for name, text in written.items())


def parameters_of(function: Callable) -> tuple[Mapping[str, inspect.Parameter], bool]:
    """The parameters by name; and whether the function takes any others.

    A class of Keras passes its `**kwargs` on, so the parameters of its bases count too, as far as `dtype` and
    `trainable`.
    """
    if not inspect.isclass(function):
        return _named(function)
    found: dict[str, inspect.Parameter] = {}
    for base in inspect.getmro(function):
        # Among the bases of keras.Model are some that take no arguments, and pass none on (Keras 3.15).
        if "__init__" not in vars(base) or not (base is function or issubclass(base, keras.Layer)):
            continue
        named, takes_more = _named(base.__init__)
        if base is not function and base.__module__.startswith("keras."):
            # Required parameters of a base are given by its subclass, such as `inputs` of a functional model,
            # which becomes a base of every such class as soon as one was built (Keras 3.15).
            named = {name: each for name, each in named.items() if each.default is not each.empty}
        found = {**named, **found}
        if not takes_more:
            break
    return {name: each for name, each in found.items() if name not in ("self", "name")}, False


def _named(function: Callable) -> tuple[dict[str, inspect.Parameter], bool]:
    parameters = inspect.signature(function).parameters
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    named = {name: each for name, each in parameters.items() if each.kind not in variable}
    return named, any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())


# --- keras.applications: no downloads, no classes of ImageNet, and pixels in the form that each model
# expects.


def pixels_of(function: Callable) -> Pixels | None:
    """The pixels that a model of keras.applications expects; None for any other model."""
    family = _family(function)
    if not family:
        return None
    name = f"keras.applications.{family}.preprocess_input"
    return Pixels(prepare=sys.modules[_APPLICATIONS + family].preprocess_input, name=name)


def _family(function: Callable) -> str:
    module = getattr(function, "__module__", "")
    return module.removeprefix(_APPLICATIONS) if module.startswith(_APPLICATIONS) else ""


def _defaults(function: Callable) -> dict[str, object]:
    return {"include_top": False, "weights": None} if _family(function) else {}


def _require_local(arguments: Mapping[str, object], function: Callable) -> None:
    """Raises InputError for weights that would be downloaded."""
    weights = arguments.get("weights")
    if _family(function) and weights is not None and not pathlib.Path(str(weights)).is_file():
        raise _error(
            "--config.model.weights",
            repr(weights),
            "a file on this machine, such as resnet50v2.weights.h5: nothing is downloaded",
        )


def _error(thing: str, received: str, expected: str) -> InputError:
    return InputError(thing, received=received, expected=expected, action=_CORRECT)
