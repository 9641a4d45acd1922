"""Builds the preprocessing and the model for a config and a dataset."""

import contextlib
import dataclasses
import fnmatch
import re
import traceback
import types
import warnings
from collections.abc import Collection, Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf

from models.registry import MODELS
from pipeline.base.errors import InputError
from pipeline.base.own_code import is_of_others, message_of, plain
from pipeline.base.values import require_matches
from pipeline.data.dataset.statistics import NumericSummary, SplitStatistics
from pipeline.data.preprocessing.preprocess import LabelScale, ModelInputs, Preprocess, label_scale
from pipeline.data.schema.feature_types import Label
from pipeline.data.schema.schema import Schema
from pipeline.training.engine.precision import Precision
from pipeline.training.experiment import config as config_lib
from pipeline.training.experiment import example_weights, model_code
from pipeline.training.experiment.code import Code
from pipeline.training.experiment.model_arguments import OUTPUTS, arguments_of, pixels_of
from pipeline.training.experiment.model_fit import FittedModel, fit_model, free_name
from pipeline.training.tasks.registry import task_of

_WITHOUT_UNIT = LabelScale()
_NOT_LOGITS = ("softmax", "sigmoid", "log_softmax", "hard_sigmoid")
# Within these limits, squares stay within float32's 1e-38 to 3e38, even divided by a batch or summed over
# one.
_LEAST_SPREAD, _LARGEST_SPREAD = 1e-18, 1e17


def build_preprocess(data: config_lib.Data, schema: Schema, statistics: SplitStatistics) -> Preprocess:
    """Returns the preprocessing of the model's inputs.

    Raises:
      InputError: images vary in size, and no size is given.
    """
    return Preprocess(
        example_weights.fed(data.example_weights, schema),
        statistics,
        image_size=data.image_size,
        image_dtype=data.image_dtype,
    )


def build_model(
    args: config_lib.Model,
    *,
    schema: Schema,
    inputs: ModelInputs,
    precision: Precision,
    scale: LabelScale = _WITHOUT_UNIT,
) -> keras.Model:
    """Builds the requested model with its options; freezes the variables that are not to be trained.

    Args:
      scale: the scale by which the model learns the labels; its last layer gives them in their own unit.

    Raises:
      InputError: there is no such model, it lacks an input or an option, or refuses an option's value; or it
        cannot be trained on this label.
    """
    return fitted_model(args, schema=schema, inputs=inputs, precision=precision, scale=scale).model


def fitted_model(
    args: config_lib.Model,
    *,
    schema: Schema,
    inputs: ModelInputs,
    precision: Precision,
    scale: LabelScale = _WITHOUT_UNIT,
) -> FittedModel:
    """Builds a model as `build_model` does; returns it with notes about how it was fitted to data and
    task.
    """
    code = model_code.locate(args)
    function = code.load()
    task = task_of(schema.label)
    outputs, shape = task.logits(schema.label), task.logits_shape(schema.label)
    arguments = arguments_of(args, function, inputs=inputs, outputs=outputs)

    def make() -> keras.Model:
        keras.utils.set_random_seed(args.seed)  # the first weights are part of the experiment
        return _require_model(code, function(**arguments))

    with precision.scope(), naming_layer(code, args.options), _warnings_if_it_ends():
        fitted = fit_model(
            make,
            thing=f"--config.model.name={args.name}",
            where=code.where,
            inputs=inputs,
            shape=shape,
            has_outputs=args.name in MODELS or not OUTPUTS.isdisjoint(arguments),
            pixels=pixels_of(function),
        )
        _require_logits(code, fitted.model, shape)
        _require_layers(code, fitted.model)
        whole = fitted.model if scale == _WITHOUT_UNIT else _in_unit(fitted.model, scale)
    freeze(whole, args.frozen)
    return dataclasses.replace(fitted, model=whole)


def _require_model(code: Code, made: object) -> keras.Model:
    if isinstance(made, keras.Model):
        return made
    raise _error(
        code.thing,
        f"an object of the class {type(made).__name__}",
        "a keras.Model",
        action=f"In {code.where}, return a keras.Model, such as keras.Model(inputs, outputs).",
    )


def _require_logits(code: Code, model: keras.Model, shape: tuple[int, ...]) -> None:
    """Raises InputError for a model that has nothing to train, or other logits than float32 [batch, *shape].

    With fewer bits the loss stops improving, and the export would be as coarse; with another shape, logits
    and labels may be paired wrongly.
    """
    thing, correct = code.thing, f"Correct the model, in {code.where}."
    logits = model.output
    if not isinstance(logits, keras.KerasTensor) or tuple(logits.shape) != (None, *shape):
        is_one = isinstance(logits, keras.KerasTensor)
        received = f"shape {list(logits.shape)}" if is_one else f"{len(logits)} outputs"
        expected = f"one tensor of shape {[None, *shape]}"
        raise _error(f"{thing}, its logits", received, expected, action=correct)
    if logits.dtype != "float32":
        raise _error(
            f"{thing}, its logits",
            logits.dtype,
            "float32 under every precision",
            action=f'Give the last layer dtype="float32" where the model is built, in {code.where}.',
        )
    if (activation := _activation(logits)) in _NOT_LOGITS:
        raise _error(
            f"{thing}, its logits",
            f"what a {activation} gives",
            "logits: the loss and the predictions apply it themselves, exactly",
            action=f"Take {activation} off the last layer, in {code.where}.",
        )
    if not model.trainable_variables:
        expected = "one that has some"
        raise _error(thing, "a model without a trainable weight", expected, action=correct)


_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")  # of a scope in TensorFlow's graphs


def _require_layers(code: Code, model: keras.Model) -> None:
    """Raises InputError for a layer whose name no graph can have, or with a variable that nothing trains."""
    for layer in model._flatten_layers():  # no public way reaches layers in layers (Keras 3.15)
        if not _NAME.fullmatch(layer.name):
            raise _error(
                f"{code.thing}, layer {layer.name!r}",
                "a name that TensorFlow's graphs cannot have",
                "letters from A to Z, digits, and then also _ . - /",
                action=f"Name it so, in {code.where}.",
            )
        for name, value in vars(layer).items():
            if isinstance(value, tf.Variable) and value.trainable:
                raise _error(
                    f"{code.thing}, layer {layer.name!r}, {name}",
                    "a tf.Variable, which Keras neither trains nor saves",
                    "a weight of the layer",
                    action=f"Make it with self.add_weight(), in {code.where}, or with trainable=False.",
                )


def _activation(logits: keras.KerasTensor) -> str:
    layer = logits._keras_history.operation  # Keras (3.15) has no public way from a tensor to its layer
    if inner := getattr(layer, "outputs", None):  # a model that was called as a layer
        return _activation(inner[0])
    return getattr(getattr(layer, "activation", None), "__name__", "") or type(layer).__name__.lower()


def learned_scale(loss: config_lib.Loss, label: Label, statistics: SplitStatistics) -> LabelScale:
    """The scale by which a model learns labels; `statistics` are those of the train split.

    Raises:
      InputError: the spread of labels is so small or so large that float32 cannot hold a squared error.
    """
    if not loss.standardise_labels or label.dtype != "float32":
        return _WITHOUT_UNIT
    scale = label_scale(label, statistics)
    for name, spread in zip(label.parts, np.broadcast_to(scale.spread, len(label.parts)), strict=True):
        if not _LEAST_SPREAD <= spread <= _LARGEST_SPREAD:
            values = f"values with a standard deviation of {spread:.3g} in the train split"
            received = values + _from_to(statistics.features[name].numeric)
            expected = f"one from {_LEAST_SPREAD:g} to {_LARGEST_SPREAD:g}, whose squares float32 can hold"
            action = "Convert the data in another unit; where few values are so far off, correct these."
            raise _error(f"label '{name}'", received, expected, action=action)
    return scale


def _from_to(numeric: NumericSummary) -> str:
    middle = numeric.quantiles[len(numeric.quantiles) // 2] if numeric.quantiles else numeric.mean
    return f", from {numeric.minimum:g} over {middle:g} in the middle to {numeric.maximum:g}"


def _in_unit(model: keras.Model, scale: LabelScale) -> keras.Model:
    # The layer computes in float32: in bfloat16, a spread of 5 is lost next to a mean of 2,000.
    unit = keras.layers.Rescaling(
        scale.spread, offset=scale.mean, dtype="float32", name=free_name("label_unit", model)
    )
    return keras.Model(model.inputs, unit(model.output), name=model.name)


def _error(
    thing: str,
    received: str,
    expected: str,
    *,
    action: str = "Correct it in the config file or on the command line.",
) -> InputError:
    return InputError(thing, received=received, expected=expected, action=action)


# --- Errors of a model's own code: what Keras and TensorFlow say about it, in one line.


_PLACES, _NODE = re.compile(r'File "([^"]+)", line (\d+)'), re.compile(r"Detected at node (\S+)")
_PRECISIONS = re.compile(r"b?float16")
_RECEIVED = re.compile(r"^([^;]*?)received .*?; expected ")
# What Keras says around the error of a layer's own code.
_AROUND = re.compile(
    r"Could not automatically infer the output .*? Error encountered: | Arguments received by .*$"
)


@contextlib.contextmanager
def naming_layer(code: Code | None, options: config_lib.Values | None = None) -> Iterator[None]:
    """Raises an InputError with layer, file and line where the code of a model or a loss fails in the
    block.
    """
    try:
        yield
    except (InputError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        # A device is out of memory, which is no mistake in the code.
        if code is None or type(error).__name__ == "ResourceExhaustedError":
            raise
        frames = list(traceback.walk_tb(error.__traceback__))
        own = [each for each in frames if _is_of_model(each[0], code)]
        if found := _graph_error(code, error):
            raise found from None
        if own:
            raise _model_error(code, options, error, own, is_its_own=own[-1] == frames[-1]) from None
        raise


@contextlib.contextmanager
def _warnings_if_it_ends() -> Iterator[None]:
    """Shows warnings of the block after it; where it fails, its error says more than they do."""
    with warnings.catch_warnings(record=True) as caught:
        yield
    for each in caught:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def _model_error(
    code: Code,
    options: config_lib.Values | None,
    error: BaseException,
    own: Sequence[tuple[types.FrameType, int]],
    *,
    is_its_own: bool,
) -> InputError:
    """Returns the error for the innermost frame in the model's own code; an error that the model itself
    raises with what it received and expected is about its options.
    """
    # A layer, or a model that is a class, has no name yet when its constructor fails.
    layers = [frame.f_locals.get("self") for frame, _ in own if frame.f_code.co_name != "__init__"]
    layer = next((each for each in reversed(layers) if isinstance(each, keras.Layer)), None)
    said = _said(error)
    if options is not None and layer is None and is_its_own and _RECEIVED.search(said):
        expected = _RECEIVED.sub(r"\1", said)  # what was received stands among the options
        return _error("--config.model", f"{code.name} with {options}", expected)
    frame, line = own[-1]
    where = f", layer {layer.name!r}" if layer is not None else ""
    return _failed(code, where, error, said, file=frame.f_code.co_filename, line=line)


def _graph_error(code: Code, error: BaseException) -> InputError | None:
    """Returns the error for an operation; TensorFlow's message tells its place in the model's code."""
    text = str(error)
    places = [each for each in _PLACES.findall(text) if code.owns(each[0])]
    if not places:
        return None
    node = _NODE.search(text)
    if node is None:
        return None
    said = plain(_PLACES.split(text)[-1].partition("\n\n")[2].partition("[[")[0] or text)
    file, line = places[-1]
    return _failed(code, f", operation '{node[1]}'", error, said, file=file, line=int(line))


def _said(error: BaseException) -> str:
    return _AROUND.sub("", plain(message_of(error))).rstrip(".")


def _failed(code: Code, where: str, error: BaseException, said: str, *, file: str, line: int) -> InputError:
    action = f"Correct {file}, line {line}."
    if code.is_library:
        section = code.key.rpartition(".")[0]
        action = f"Choose other values of {section}, or another size of the data."
    if _PRECISIONS.search(said):
        action += (
            " A layer casts what is not its input to self.compute_dtype; --precision=float32 needs no cast."
        )
    return _error(
        f"{code.thing}{where}",
        f"{type(error).__name__}: {said}",
        "code that can be run",
        action=action,
    )


def _is_of_model(frame: types.FrameType, code: Code) -> bool:
    """Returns whether the code is the model's, or belongs to a layer that is not from a library."""
    file = frame.f_code.co_filename
    return code.owns(file) or (isinstance(frame.f_locals.get("self"), keras.Layer) and not is_of_others(file))


# --- Variables of a model, chosen by patterns of their names.


def matching(
    patterns: Sequence[str], variables: Sequence[keras.Variable], *, key: str
) -> list[keras.Variable]:
    """Returns the variables whose path, such as `embeddings/table`, matches a pattern like `embeddings/*`.

    Raises:
      InputError: a pattern matches none; `key` is its key in the config.
    """
    require_matches(patterns, sorted(each.path for each in variables), key=key, kind="variable")
    return [each for each in variables if any(fnmatch.fnmatchcase(each.path, one) for one in patterns)]


def freeze(model: keras.Model, patterns: Sequence[str]) -> None:
    """Freezes the weights whose paths match a pattern, and the statistics of layers that are wholly frozen.

    Such a layer runs in inference mode if Keras has one for it: a frozen BatchNormalization normalises by its
    moving statistics, and does not change them.

    Raises:
      InputError: a pattern matches no weight; none is left to train; or a pattern matches statistics of a
        layer that still trains other weights.
    """
    frozen = {id(each) for each in matching(patterns, model.weights, key=_FROZEN)}
    layers = [
        each for each in model._flatten_layers() if each.weights
    ]  # Keras (3.15) has no public way to all layers
    whole = [each for each in layers if all(id(weight) in frozen for weight in each.weights)]
    _require_whole_statistics(frozen, layers, whole)
    for weight in model.weights:
        if id(weight) in frozen:
            weight.trainable = False
    for layer in whole:
        layer.trainable = False
    if patterns and not model.trainable_variables:
        raise _error(f"--config.{_FROZEN}", repr(tuple(patterns)), "patterns that leave a weight to train")


_FROZEN = "train.frozen"


def _require_whole_statistics(
    frozen: Collection[int], layers: Sequence[keras.Layer], whole: Sequence[keras.Layer]
) -> None:
    kept = {id(weight) for layer in whole for weight in layer.weights}
    for layer in layers:
        for weight in layer._non_trainable_variables:
            if id(weight) in frozen - kept:
                raise _error(
                    f"--config.{_FROZEN}",
                    f"patterns of {weight.path}, and not of all weights of layer '{layer.name}'",
                    "statistics that are frozen with their layer, which then runs in inference mode",
                    action=f"Freeze '{layer.path}/*', or leave '{weight.path}' out.",
                )
