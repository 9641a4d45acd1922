"""Fits a model to the data and the task: its inputs are filled by name, and a backbone gets a head.

Each input of a model is filled with the first of these that exists:

1. the tensor of its name: `image`, `numeric`, `categories`, or a sequence of ids by its feature's name;
2. the columns of the feature of its name: numbers, where it takes floats, else ids;
3. of the only sequence: `token_ids`, its `padding_mask` (1 where a token is) and `segment_ids` (all 0);
4. the only tensor of its kind, if it is the only input of that kind: images [height, width, channels], floats
   of numbers, whole numbers of a sequence or of categories.

A model that declares no inputs, like a subclassed one, is called on the tensors whose names its call's
arguments have. If it has one argument, that gets the only tensor, or a dict or a tuple of all.
"""

import dataclasses
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras

from pipeline.base.errors import InputError
from pipeline.data.preprocessing.preprocess import ModelInputs
from pipeline.data.schema.schema import SEGMENTS

IMAGE, _NUMERIC, _CATEGORIES = "image", "numeric", "categories"
_TOKEN_IDS, _PADDING_MASK, _SEGMENT_IDS = "token_ids", "padding_mask", "segment_ids"
_COLORS, _MOST_CHANNELS = 3, 4
_OF_FIT = ("train_step", "test_step", "compute_loss", "compute_metrics")  # methods that Model.fit calls
# Features that a backbone's dict of outputs may hold, the best first.
_FEATURES = ("pooled_output", "sequence_output")
_NORMALIZING = (keras.layers.Rescaling, keras.layers.Normalization)

Tensors = Mapping[str, keras.KerasTensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FittedModel:
    """A model from {name: tensor}, as `ModelInputs` describes them, to logits.

    Attributes:
      notes: lines about what was added to the model and what it leaves unused.
    """

    model: keras.Model
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pixels:
    """The pixels that a model with float inputs expects.

    Attributes:
      prepare: function from float32 [batch, height, width, channels], 0 … 255, to the pixels that the model
        expects.
      name: name of that function.
    """

    prepare: Callable[[keras.KerasTensor], keras.KerasTensor]
    name: str


def fit_model(
    make: Callable[[], keras.Model],
    *,
    thing: str,
    where: str,
    inputs: ModelInputs,
    shape: tuple[int, ...],
    has_outputs: bool,
    pixels: Pixels | None = None,
) -> FittedModel:
    """Builds a model with the layers that it needs before and after it.

    Args:
      make: builds the model; called again to try a subclassed model on other inputs.
      thing: what errors call the model; `where` is its file.
      shape: the shape of one example's logits, such as (classes,).
      has_outputs: `make` was given the number of outputs: then the model's are logits, and no features.
      pixels: what the model was made for; None: what it holds itself, or the data's own scale.

    Raises:
      InputError: an input cannot be filled, or the outputs are not features.
    """
    made = make()
    data = _Data(inputs, thing=thing, where=where, pixels=pixels, rescales=_rescales(made))
    data.leaves_out(made)
    declared = _declared(made)
    if declared is None:
        features = _called(made, make, data)
    elif data.is_as_declared(made):
        data.tensors = {each.name: each for each in declared}
        features = made.output
    else:
        features = made(keras.tree.pack_sequence_as(_structure(made), data.filled(declared)))
    if not has_outputs:
        features = data.with_head(features, shape, name=free_name("logits", made))
    if declared is not None and features is made.output:
        return FittedModel(model=made, notes=data.notes())
    fitted = keras.Model(list(data.tensors.values()), features, name=made.name)
    return FittedModel(model=fitted, notes=data.notes())


def tensors_of(inputs: ModelInputs) -> dict[str, keras.KerasTensor]:
    """Returns an input for each tensor of the data, by its name."""
    shapes = {
        IMAGE: (inputs.image_shape, inputs.image_dtype),
        _NUMERIC: ((inputs.numeric,) if inputs.numeric else None, "float32"),
        _CATEGORIES: ((len(inputs.cardinalities),) if inputs.cardinalities else None, "int32"),
        **{name: ((length,), "int32") for name, (length, _) in inputs.sequences.items()},
    }
    return {
        name: keras.Input(shape, dtype=dtype, name=name) for name, (shape, dtype) in shapes.items() if shape
    }


def _declared(model: keras.Model) -> list[keras.KerasTensor] | None:
    """The inputs from which a model was built; None where only a call tells."""
    try:
        return list(model.inputs)
    except (AttributeError, ValueError, TypeError):  # Keras raises these where there are no inputs
        return None


def _structure(model: keras.Model) -> object:
    """The inputs, in the lists and dicts in which a call takes them."""
    return model.inputs[0] if isinstance(model, keras.Sequential) else model.input


def _rescales(model: keras.Model) -> bool:
    """Returns whether the model scales pixels itself; a Normalization of a table's numbers does not."""
    return any(isinstance(each, _NORMALIZING) and _may_get_images(each) for each in model._flatten_layers())


def _may_get_images(layer: keras.Layer) -> bool:
    """Returns whether a layer may get pixels: a rescaled branch within a network has more channels."""
    try:
        return len(layer.input.shape) == 4 and (layer.input.shape[-1] or 0) <= _MOST_CHANNELS
    except (AttributeError, ValueError, TypeError):  # the layer was never called, or more than once
        return True


def free_name(name: str, model: keras.Model) -> str:
    """Returns the name for a layer to be added, or another that begins with it, if the model has the name."""
    taken = {each.name for each in model._flatten_layers()}
    others = (f"{name}_of_task{'_' * number}" for number in itertools.count())
    return next(each for each in itertools.chain([name], others) if each not in taken)


class _Data:
    """The tensors of the data, for a model to take; it records which were used and what was done."""

    def __init__(
        self, inputs: ModelInputs, *, thing: str, where: str, pixels: Pixels | None, rescales: bool
    ) -> None:
        self.tensors = tensors_of(inputs)
        self._inputs = inputs
        self._thing, self._where = thing, where
        self._pixels, self._rescales = pixels, rescales
        self._used: dict[str, set[int] | None] = {}  # used columns of a tensor; None: all of it
        self._notes: list[str] = []

    def notes(self) -> tuple[str, ...]:
        """Lines about what was done, and about features that the model does not get."""
        features = {name: self._inputs.columns.get(name) or {name: ()} for name in self.tensors}
        everything = dict.fromkeys(each for own in features.values() for each in own)
        used = {
            each
            for name, columns in self._used.items()
            for each, own in features[name].items()
            if columns is None or columns.issuperset(own)
        }
        unused = [each for each in everything if each not in used]
        return (
            *self._notes,
            *([f"unused     {', '.join(unused)}: the model has no input for them"] if unused else []),
        )

    def leaves_out(self, model: keras.Model) -> None:
        """Notes the methods of a class that `Model.fit` would call, and no step of Penstock does."""
        own = [name for name in _OF_FIT if getattr(type(model), name) is not getattr(keras.Model, name)]
        if own:
            self._notes.append(
                f"warning    {', '.join(own)} of {type(model).__name__} "
                f"{'is' if len(own) == 1 else 'are'} not called: Penstock has a step of its own, with the "
                "loss of config.loss"
            )

    # --- Declared inputs.

    def is_as_declared(self, model: keras.Model) -> bool:
        """Returns whether the model takes exactly the dict of the data's tensors."""
        declared, structure = _declared(model), _structure(model)
        names = [each.name for each in declared]
        if not isinstance(structure, list) and not (
            # Keras takes the inputs of a dict by their order: one tensor more would shift the others.
            isinstance(structure, Mapping) and sorted(structure) == sorted(names) == sorted(self.tensors)
        ):
            return False
        is_image_raw = self._pixels is None and not self._rescales
        same = all(
            each.name in self.tensors
            and each.dtype == self.tensors[each.name].dtype
            and _fits(each.shape, self.tensors[each.name].shape)
            and (each.name != IMAGE or "int" in each.dtype or is_image_raw)
            for each in declared
        )
        self._used |= dict.fromkeys(names) if same else {}
        return same

    def filled(self, declared: Sequence[keras.KerasTensor]) -> list[keras.KerasTensor]:
        """Returns the tensor that fills each input, in the order of the inputs."""
        found = [self._named(each) for each in declared]
        left = [each for each, tensor in zip(declared, found, strict=True) if tensor is None]
        pairs = zip(declared, found, strict=True)
        return [self._only(each, left) if tensor is None else tensor for each, tensor in pairs]

    def _named(self, wanted: keras.KerasTensor) -> keras.KerasTensor | None:
        name = wanted.name
        if name in self.tensors:
            return self._as(wanted, name)
        kind = _NUMERIC if "float" in wanted.dtype else _CATEGORIES
        if columns := self._inputs.columns.get(kind, {}).get(name):
            return self._columns(wanted, kind, columns)
        if name in (_TOKEN_IDS, _PADDING_MASK, _SEGMENT_IDS) and len(self._inputs.sequences) == 1:
            sequence = next(iter(self._inputs.sequences))
            return self._as(wanted, sequence) if name == _TOKEN_IDS else self._of_tokens(wanted, sequence)
        return None

    def _only(self, wanted: keras.KerasTensor, left: Sequence[keras.KerasTensor]) -> keras.KerasTensor:
        """Fills an input with the only tensor of its kind that nothing else took."""
        rivals = [each for each in left if _kind(each) == _kind(wanted)]
        free = {name: each for name, each in self.tensors.items() if name not in self._used}
        fitting = [name for name, each in free.items() if _kind(each) == _kind(wanted)]
        if len(fitting) == len(rivals) == 1:
            return self._as(wanted, fitting[0])
        raise self._unfilled(wanted)

    def _as(self, wanted: keras.KerasTensor, name: str) -> keras.KerasTensor:
        self._used[name] = None
        if name == IMAGE and _kind(wanted) == _kind(self.tensors[IMAGE]):
            found = self.image(wanted.dtype, channels=wanted.shape[-1])
        else:
            found = _cast(self.tensors[name], wanted.dtype)
        if not _fits(wanted.shape, found.shape):
            raise self._unfilled(wanted)
        return found

    def _columns(self, wanted: keras.KerasTensor, kind: str, columns: Sequence[int]) -> keras.KerasTensor:
        if self._used.get(kind, ()) is not None:
            self._used[kind] = {*(self._used.get(kind) or ()), *columns}
        found = keras.ops.take(self.tensors[kind], columns, axis=1)  # (batch, columns)
        if wanted.shape == (None,) and len(columns) == 1:
            found = found[:, 0]
        if not _fits(wanted.shape, found.shape):
            raise self._unfilled(wanted)
        return _cast(found, wanted.dtype)

    def _of_tokens(self, wanted: keras.KerasTensor, sequence: str) -> keras.KerasTensor:
        ids = self.tensors[sequence]
        is_mask = wanted.name == _PADDING_MASK
        return (
            keras.ops.cast(ids != 0, wanted.dtype)
            if is_mask
            else _cast(keras.ops.zeros_like(ids), wanted.dtype)
        )

    def image(self, dtype: str, *, channels: int | None = None) -> keras.KerasTensor:
        """Returns the images in a dtype, on the scale that the model expects."""
        image = self.tensors[IMAGE]
        self._used[IMAGE] = None
        if self._pixels:
            channels = _COLORS
        if channels == _COLORS and image.shape[-1] == 1:
            image = keras.ops.repeat(image, _COLORS, axis=-1)
            self._notes.append(f"pixels     gray, repeated to {_COLORS} channels")
        if "float" not in dtype or self._pixels or self._rescales:
            return self._prepared(image, dtype)
        if self._inputs.image_rescaling is None:
            return _cast(image, dtype)
        scale, offset = self._inputs.image_rescaling
        self._notes.append(
            f"pixels     0 … 255 × {scale:.4g} {offset:+g}: the model takes floats, and has no rescaling"
        )
        return keras.layers.Rescaling(scale, offset=offset)(image)

    def _prepared(self, image: keras.KerasTensor, dtype: str) -> keras.KerasTensor:
        """Returns images of 0 … 255 in the form that the model, or its own preprocessing, expects."""
        if "int" not in image.dtype:
            raise InputError(
                "--config.image_dtype",
                received=f"{image.dtype}, pixels from -1 to 1",
                expected=f"uint8, pixels from 0 to 255, which {self._thing} takes",
                action="Set --config.image_dtype=uint8.",
            )
        if "float" not in dtype:
            return _cast(image, dtype)
        image = _cast(image, "float32")
        if self._pixels is None:
            self._notes.append("pixels     0 … 255: the model has a rescaling or normalization of its own")
            return image
        self._notes.append(f"pixels     0 … 255 through {self._pixels.name}")
        return self._pixels.prepare(image)

    def _unfilled(self, wanted: keras.KerasTensor) -> InputError:
        there = [f"{name} {each.dtype} {_shape(each)}" for name, each in self.tensors.items()]
        columns = sorted({each for own in self._inputs.columns.values() for each in own})
        features = f", or the columns of {', '.join(columns)}" if columns else ""
        action = f"Name and shape the inputs like these, in {self._where}."
        if wanted.name in (_TOKEN_IDS, _PADDING_MASK, _SEGMENT_IDS) and SEGMENTS in self._inputs.sequences:
            action = (
                "Call it in a function of your own: body({'token_ids': tokens, 'padding_mask': "
                "keras.ops.cast(segments > 1, 'int32')}), as docs/guides/text_and_language.md shows."
            )
        elif _kind(wanted) == IMAGE and IMAGE in self.tensors and None not in wanted.shape[1:3]:
            action = (
                f"Set --config.image_size={wanted.shape[1]},{wanted.shape[2]}, or build the model for these."
            )
        return InputError(
            f"{self._thing}, input '{wanted.name}'",
            received=f"{wanted.dtype} {_shape(wanted)}",
            expected=f"one that the data fill: {', '.join(there)}{features}",
            action=action,
        )

    # --- Inputs of a call.

    def calls(self, model: keras.Model) -> Iterator[Callable[[keras.Model], object]]:
        """Yields the ways to call a model that declares no inputs, the likeliest first."""
        ready = {
            name: self.image("float32") if name == IMAGE else each for name, each in self.tensors.items()
        }
        names = _arguments(model)
        named = {name: each for name, each in (ready | self._token_inputs()).items() if name in names}
        if len(names) > 1 or (named and len(ready) > 1):
            self._use(named)
            first, *more = names
            missing = [name for name in names if name not in named]
            if missing:
                raise self._unnamed(missing)
            yield lambda made: made(named[first], **{name: named[name] for name in more})
            return
        self._use(ready)
        if len(ready) == 1:
            yield lambda made: made(next(iter(ready.values())))
        yield lambda made: made(dict(ready))
        if len(ready) > 1:
            yield lambda made: made(tuple(ready.values()))

    def _use(self, named: Tensors) -> None:
        tokens = {_TOKEN_IDS, _PADDING_MASK, _SEGMENT_IDS} & set(named)
        names = {*named, *(self._inputs.sequences if tokens else ())}
        self._used = dict.fromkeys(name for name in names if name in self.tensors)

    def _token_inputs(self) -> dict[str, keras.KerasTensor]:
        if len(self._inputs.sequences) != 1:
            return {}
        ids = self.tensors[next(iter(self._inputs.sequences))]
        mask, segments = keras.ops.cast(ids != 0, "int32"), keras.ops.zeros_like(ids)
        return {_TOKEN_IDS: ids, _PADDING_MASK: mask, _SEGMENT_IDS: segments}

    def _unnamed(self, missing: Sequence[str]) -> InputError:
        there = [f"{name} {each.dtype} {_shape(each)}" for name, each in self.tensors.items()]
        return InputError(
            f"{self._thing}, its call",
            received=f"the arguments {', '.join(missing)}",
            expected=f"arguments with the names of the data's tensors: {', '.join(there)}",
            action=f"Use these names in {self._where}, or take a dict of all tensors.",
        )

    # --- Outputs.

    def with_head(self, outputs_of: object, shape: tuple[int, ...], *, name: str) -> keras.KerasTensor:
        """Returns logits [batch, *shape]: a model's own, or those of a new head, `name`, on its features.

        Where each token has logits, the features are those of the tokens.
        """
        output, features = self._features(outputs_of)
        if tuple(features.shape) == (None, *shape):
            self._notes.append(f"head       none is added: {output} {_shape(features)} are the logits")
            return features
        outputs, is_of_tokens = shape[-1], tuple(features.shape[:-1]) == (None, *shape[:-1])
        pooled, how = (features, "the") if is_of_tokens and len(shape) > 1 else self._pooled(features)
        self._notes.append(
            f"head       {outputs:,} outputs, float32, on {how} {output} {_shape(features)}, "
            f"added as '{name}'"
        )
        return keras.layers.Dense(outputs, dtype="float32", name=name)(pooled)

    def _features(self, outputs_of: object) -> tuple[str, keras.KerasTensor]:
        if isinstance(outputs_of, Mapping):
            outputs_of = {name: outputs_of[name] for name in _FEATURES if name in outputs_of} or outputs_of
            name, found = next(iter(outputs_of.items()))
            if len(outputs_of) == 1 or name in _FEATURES:
                return name, found
        elif isinstance(outputs_of, Sequence) and len(outputs_of) == 1:
            return "features", outputs_of[0]
        elif isinstance(outputs_of, keras.KerasTensor):
            return "features", outputs_of
        named = f" ({', '.join(map(str, outputs_of))})" if isinstance(outputs_of, Mapping) else ""
        raise InputError(
            f"{self._thing}, its outputs",
            received=f"{len(outputs_of)} outputs{named}",
            expected=f"one: logits, or features for a head; or a dict with {' or '.join(_FEATURES)}",
            action=f"Return the one to train from a function of your own, as module:function, or correct "
            f"{self._where}.",
        )

    def _pooled(self, features: keras.KerasTensor) -> tuple[keras.KerasTensor, str]:
        """Features of any rank → [batch, width]: the average over places, or over tokens that are not
        padding.
        """
        if features.shape[-1] is None or len(features.shape) < 2:
            raise InputError(
                f"{self._thing}, its features",
                received=f"the shape {_shape(features)}",
                expected="[batch, …, width] with a width that is known",
                action=f"Correct {self._where}.",
            )
        if len(features.shape) == 2:
            return features, "the"
        features = _cast(features, "float32")
        if (mask := self._mask(features)) is not None:
            # At least 1, so that an empty text is not divided by 0.
            count = keras.ops.maximum(keras.ops.sum(mask, axis=1, keepdims=True), 1.0)
            return keras.ops.sum(
                features * (mask / count)[:, :, None], axis=1
            ), "the average over tokens of the"
        return keras.ops.mean(features, axis=tuple(range(1, len(features.shape) - 1))), "the average of the"

    def _mask(self, features: keras.KerasTensor) -> keras.KerasTensor | None:
        """1.0 where the only sequence that is used has a token, [batch, length]; None if there is no such
        sequence.
        """
        used = [name for name in self._inputs.sequences if name in self._used]
        if len(used) != 1 or len(features.shape) != 3 or features.shape[1] != self.tensors[used[0]].shape[1]:
            return None
        return keras.ops.cast(self.tensors[used[0]] != 0, "float32")


def _called(made: keras.Model, make: Callable[[], keras.Model], data: _Data) -> object:
    """Calls a model that declares no inputs in the first way that works; if none does, raises the error of
    the first.
    """
    failed = []
    for number, call in enumerate(data.calls(made)):
        model = make() if number else made  # built again, because a failed call leaves a model half built
        try:
            return call(model)
        except InputError:
            raise
        except Exception as error:
            failed.append(error)
    raise failed[0]


def _arguments(model: keras.Model) -> list[str]:
    """The arguments of a model's call that take tensors."""
    parameters = inspect.signature(model.call).parameters.values()
    return [
        each.name
        for each in parameters
        if each.name not in ("training", "mask")
        and each.kind in (each.POSITIONAL_OR_KEYWORD, each.POSITIONAL_ONLY, each.KEYWORD_ONLY)
        and (each.default is each.empty or each.name in (IMAGE, _NUMERIC, _CATEGORIES))
    ]


def _kind(tensor: keras.KerasTensor) -> str:
    if len(tensor.shape) == 4:
        return IMAGE
    return (
        ("ids" if "int" in tensor.dtype else "numbers") if len(tensor.shape) == 2 else f"{len(tensor.shape)}"
    )


def _fits(wanted: Sequence[int | None], found: Sequence[int | None]) -> bool:
    """Returns whether a tensor fills an input; None is any size."""
    return len(wanted) == len(found) and all(a in (None, b) for a, b in itertools.zip_longest(wanted, found))


def _cast(tensor: keras.KerasTensor, dtype: str) -> keras.KerasTensor:
    return tensor if tensor.dtype == dtype else keras.ops.cast(tensor, dtype)


def _shape(tensor: keras.KerasTensor) -> str:
    return f"[{', '.join(str(each) for each in ('batch', *tensor.shape[1:]))}]"
