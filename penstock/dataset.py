"""Datasets as a library: batches for a model, raw batches, and rows for Grain and torch.

  import penstock

  train = penstock.open("build/digits/1.0.0").train
  model.fit(train.batches(256, seed=0), steps_per_epoch=train.rows // 256)

The batches are those of `pipeline.train`. Their order is a pure function of the seed and a position: what a
program has to remember is how many examples it has taken. TensorFlow is imported where batches are made, and
`source` needs none.
"""

import contextlib
import dataclasses
import glob
import operator
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, SupportsIndex

from pipeline.base import files
from pipeline.base.errors import InputError, did_you_mean
from pipeline.data.dataset import foreign, manifest, shards
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.dataset.window import open_window
from pipeline.data.reading import source as source_lib
from pipeline.data.reading.source import RowSource
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.schema import Schema

if TYPE_CHECKING:
    import tensorflow as tf

    from pipeline.data.origins.files import Origin
    from pipeline.data.preprocessing.preprocess import ModelInputs, Preprocess
    from pipeline.training.experiment.config import Data


def open_dataset(*directories: str | os.PathLike) -> "Dataset":
    """Opens a dataset that `convert` wrote; several, or those of a glob, are read as one.

    Raises:
      InputError: a directory is not a sound dataset, or two have another schema or layout.
    """
    return Dataset(open_window(directories))


def index(*patterns: str | os.PathLike, schema: str | os.PathLike | Schema) -> "Dataset":
    """Opens uncompressed TFRecord files that others wrote, as one split, `train`.

    A file without an index gets one beside it, for which it is read once to its end. Such files have no
    statistics, so they give `raw` batches and a `source`, but no batches for a model.

    Args:
      patterns: paths and globs of local files, read in this order; those of a glob by name.
      schema: what the records hold, or the path of a schema.json; `infer_schema` proposes one.

    Raises:
      InputError: nothing matches, a file is damaged or no TFRecord file, or an index cannot be written.
    """
    paths = [found for pattern in patterns for found in _matching(os.fspath(pattern))]
    for path in paths:
        if not (target := path.with_name(shards.file_name(path.name))).exists():
            _write_index(target, path)
    parsed = schema if isinstance(schema, Schema) else schema_lib.load(pathlib.Path(schema))
    return Dataset(foreign.open_files(paths, parsed))


def _write_index(target: pathlib.Path, path: pathlib.Path) -> None:
    built = foreign.build(path)
    try:
        files.write_bytes(target, shards.dumps(built))
    except OSError as error:
        raise InputError(
            f"index {target}",
            received=error.strerror or str(error),
            expected=f"a folder in which the index of {path.name} can be written",
            action="Make the folder writable, or copy the files or link to them elsewhere.",
        ) from None


def _matching(pattern: str) -> list[pathlib.Path]:
    if "://" in pattern:
        raise InputError(
            f"TFRecord files {pattern}",
            received="a URL",
            expected="files of a local or mounted file system",
            action="Mount the bucket (gcsfuse), or copy the files.",
        )
    if pathlib.Path(pattern).exists() or not glob.has_magic(pattern):
        return [pathlib.Path(pattern)]
    return [pathlib.Path(path) for path in sorted(glob.glob(pattern))]  # noqa: PTH207 - absolute patterns too


class Dataset:
    """A dataset version: `dataset.train`, `dataset["train[:90%]"]`, `dataset.splits`, `dataset.schema`."""

    def __init__(self, opened: manifest.Dataset) -> None:
        self._opened = opened

    @property
    def splits(self) -> dict[str, int]:
        """The number of rows of each split."""
        return {name: self._opened.rows(name) for name in self._opened.manifest.splits}

    @property
    def schema(self) -> Schema:
        return self._opened.schema

    @property
    def digest(self) -> str:
        """SHA-256 of the manifest: equal exactly when every byte of the dataset is equal."""
        return self._opened.manifest.digest

    def __getitem__(self, expression: str) -> "Split":
        """A split, a part of one, or several joined: `train[:90%]`, `train[1000:]`, `train+validation`.

        Raises InputError where there is no such split, or it is empty.
        """
        if not isinstance(expression, str):
            raise TypeError(f"a dataset has splits, such as dataset['train[:90%]'], not {expression!r}")
        return Split(selection=select(self._opened, expression))

    def __getattr__(self, name: str) -> "Split":
        if name.startswith("_"):  # copy and pickle ask for such names while the object is still empty
            raise AttributeError(name)
        if name not in self._opened.manifest.splits:
            meant = did_you_mean(name, self.splits, otherwise=f"Its splits are {', '.join(self.splits)}.")
            raise AttributeError(f"dataset {self._opened} has no split '{name}'. {meant}")
        return self[name]

    def __iter__(self) -> Iterator[str]:
        """Iterates over the names of the splits, as a dict does."""
        return iter(self.splits)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.splits]

    def __repr__(self) -> str:
        splits = ", ".join(f"{name}: {rows:,} rows" for name, rows in self.splits.items())
        return f"<penstock.Dataset {self._opened}, {splits}>"


# `--config.image_size=224,224` or `--config.augmentation.hue`, in errors that commands give, too.
_KEY = re.compile(r"--config\.(\w+)(?:\.(\w+))?(?:=(\w+(?:[.,]\w+)*))?")


@contextlib.contextmanager
def _naming_arguments() -> Iterator[None]:
    """In errors, names the arguments that a program has in place of a command's flags."""
    try:
        yield
    except InputError as error:
        said = {key: getattr(error, key) for key in ("thing", "received", "expected", "action")}
        thing, *others = (_KEY.sub(_as_argument, text) for text in said.values())
        raise type(error)(thing, **dict(zip([*said][1:], others, strict=True))) from None


def _as_argument(key: re.Match) -> str:
    """`image_size=(224, 224)` of `--config.image_size=224,224`."""
    name, part, value = key.groups()
    if value is not None and not value[0].isdigit():
        value = repr(value)
    elif value is not None and "," in value:
        value = f"({value.replace(',', ', ')})"
    if name == "augmentation":
        return f"augmentation={{'{part}': {value or '…'}}}"
    argument = "size" if name == "global_batch" else part or name
    return f"{argument}={value}" if value else argument


@dataclasses.dataclass(frozen=True, kw_only=True)
class Split:
    """Rows of a dataset. Positions are numbers of examples in the endless stream of shuffled epochs."""

    selection: Selection

    @property
    def rows(self) -> int:
        return self.selection.rows

    def __len__(self) -> int:
        return self.rows

    def __repr__(self) -> str:
        dataset = self.selection.dataset
        return f"<penstock.Split '{self.selection.expression}' of {dataset}: {self.rows:,} rows>"

    def origins(self) -> "list[Origin | None]":
        """Where each row came from, in stored order, which is that of `once` and of `source()`.

        An origin has the `file`, relative to the folder of the inputs, and the `row` in it, from 1; the `row`
        is None where the file is one row, such as a picture. A row whose origin is not known has None:
        `--noorigins` wrote the dataset, or its `origins/` were deleted.

        Raises:
          InputError: origins are damaged.
        """
        from pipeline.data.origins.reader import of_selected

        return of_selected(self.selection)

    @_naming_arguments()
    def batches(
        self,
        size: int,
        *,
        seed: int = 0,
        position: int = 0,
        context: "tf.distribute.InputContext | None" = None,
        shuffle: str = "auto",
        image_size: tuple[int, int] | None = None,
        image_dtype: str = "uint8",
        augmentation: Mapping[str, object] | None = None,
        example_weights: str = "",
    ) -> "tf.data.Dataset":
        """Endless batches (inputs, labels) of what a model eats, as `pipeline.train` makes them.

        With `example_weights` there is a third part, the weights, which `model.fit` takes. The second part of
        mixed images has more: see `pipeline.data.input.training.Mixed`.

        Args:
          size: examples of a global batch. The order of small records, which are shuffled in windows, depends
            on it: go on with the size with which you began, or take `shuffle="global"`.
          position: examples taken since the start of training: with seed and size, the whole state.
          context: the context that `strategy.distribute_datasets_from_function(lambda context: …)` passes for
            a host; a batch is then that of one replica. shuffle, image_size, image_dtype, augmentation: as in
            a config.
          example_weights: the feature that weighs the losses, which the model then does not get.

        Raises:
          InputError: an argument does not fit the data, or the dataset has no statistics.
        """
        from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

        # isort: split
        from pipeline.data.input.batches import training_batches
        from pipeline.training.experiment import data as data_lib

        size, position = _whole("size", size, least=1), _whole("position", position)
        data = self._data(
            size,
            seed=seed,
            shuffle=shuffle,
            image_size=image_size,
            image_dtype=image_dtype,
            augmentation=augmentation,
            example_weights=example_weights,
        )
        share = _share(size, context)
        preprocess = _preprocess(data, self.selection)
        data_lib.check_augmentation(data, preprocess.inputs, replicas=share.replicas)
        batches = training_batches(
            data_lib.read_plan(data, self.selection, share=share, position=position),
            preprocess,
            augmentation=data.augmentation,
            targets=data_lib.targets(data, self.selection.dataset.schema),
        )
        if not example_weights or data.augmentation.mixes:
            return batches
        return batches.map(lambda inputs, targets: (inputs, *targets))  # as `model.fit` takes them

    @_naming_arguments()
    def once(
        self,
        size: int,
        *,
        context: "tf.distribute.InputContext | None" = None,
        fill: bool = False,
        image_size: tuple[int, int] | None = None,
        image_dtype: str = "uint8",
        example_weights: str = "",
    ) -> "tf.data.Dataset":
        """Batches (inputs, labels, weights) that hold every row once, for `model.evaluate` and `predict`.

        The weights, float32, are 1, or those of `example_weights`. A batch has `size` rows or fewer: sizes
        differ by one at most. With `fill` or a `context` all have `size` rows, and the last one is filled up
        with copies, whose weight is 0. Then `predict` predicts these, too, and only `weighted_metrics` are
        right: Keras divides its loss by the size of a batch, and counts the copies in `metrics`. With several
        replicas take `fill=True` and a multiple of their number as `size`: the `evaluate` of Keras (3.15)
        fails where replicas get parts of different sizes ("Inputs to operation AddN").

        Args:
          context, image_size, image_dtype, example_weights: as in `batches`.
        """
        from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

        # isort: split
        import tensorflow as tf

        from pipeline.data.input.batches import evaluation_batches, evaluation_steps
        from pipeline.training.experiment import data as data_lib

        size = _whole("size", size, least=1)
        data = self._data(
            size, image_size=image_size, image_dtype=image_dtype, example_weights=example_weights
        )
        preprocess = _preprocess(data, self.selection)
        targets = data_lib.targets(data, self.selection.dataset.schema)

        def made(rows: Selection, size: int) -> tf.data.Dataset:
            return evaluation_batches(rows, preprocess, share=_share(size, context), targets=targets)

        steps = evaluation_steps(self.rows, size)
        batches = made(self.selection, size) if fill or context else _joined(self.selection, steps, made)
        if example_weights:
            batches = batches.map(lambda inputs, both, mask: (inputs, both[0], both[1] * mask))
        # Keras warns where fewer batches come than TensorFlow predicts for cut windows.
        return batches.apply(tf.data.experimental.assert_cardinality(steps))

    @_naming_arguments()
    def raw(
        self,
        size: int,
        *,
        seed: int = 0,
        position: int = 0,
        context: "tf.distribute.InputContext | None" = None,
        shuffle: str = "auto",
    ) -> "tf.data.Dataset":
        """Endless batches of what the records hold, before preprocessing: features [size, …] by name.

        They are shuffled, in the order that `batches` has with the same arguments. `source` also gives rows
        in the order of the shards. The label is among the features.
        """
        from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

        # isort: split
        from pipeline.data.input.batches import raw_batches
        from pipeline.data.reading.plan import plan_reading

        size, position = _whole("size", size, least=1), _whole("position", position)
        return raw_batches(
            plan_reading(
                self.selection,
                share=_share(size, context),
                seed=_whole("seed", seed),
                position=position,
                shuffle=shuffle,
            )
        )

    @_naming_arguments()
    def source(
        self, size: int = 0, *, seed: int | None = None, shuffle: str = "auto", epochs: int = 1
    ) -> RowSource:
        """The rows by position, as NumPy: for Grain and torch, also where there is no TensorFlow.

        `source[7]` is what `raw` gives at position 7, `source[512:768]` is a batch; the elements of
        `source.batched(256)` are batches.

        Args:
          size: examples in the global batches whose order it follows; only `shuffle=windows` depends on it.
          seed: the seed of that order; None: the rows are in stored order, that of the shards and of the
            records in them.
          epochs: number of epochs, one after the other, each shuffled anew.

        Raises:
          InputError: the order depends on the size of the batches, and none is given.
        """
        from pipeline.data.reading.positions import way_of

        size, epochs = _whole("size", size), _whole("epochs", epochs, least=1)
        if seed is None:
            return source_lib.stored_rows(self.selection, epochs=epochs)
        if not size and way_of(self.selection, shuffle) == "windows":
            raise InputError(
                "size of a source",
                received="none, with a seed and small records",
                expected="that of the global batches, on which the order of such rows depends",
                action="Write source(256, seed=0), or source(seed=0, shuffle='global').",
            )
        return source_lib.stream_rows(
            self.selection,
            seed=_whole("seed", seed),
            global_batch=size or 1,
            shuffle=shuffle,
            epochs=epochs,
        )

    @_naming_arguments()
    def inputs(
        self,
        *,
        image_size: tuple[int, int] | None = None,
        image_dtype: str = "uint8",
        example_weights: str = "",
    ) -> "ModelInputs":
        """The tensors of `batches`: with the sizes of each input, all that is needed to build a model."""
        from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

        data = self._data(1, image_size=image_size, image_dtype=image_dtype, example_weights=example_weights)
        return _preprocess(data, self.selection).inputs

    def _data(
        self, size: int, *, augmentation: Mapping[str, object] | None = None, **given: object
    ) -> "Data":
        from pipeline.data.images.augmentation import Augmentation
        from pipeline.training.experiment.config import Data

        if "seed" in given:
            given["seed"] = _whole("seed", given["seed"])
        if (image_size := given.get("image_size")) is not None:
            given["image_size"] = _height_and_width(image_size)
        defaults = {"seed": 0, "shuffle": "auto", "example_weights": "", "weight": 1.0, "mixture": ()}
        return Data(
            split=self.selection.expression,
            global_batch=size,
            augmentation=Augmentation(**augmentation or {}),
            **{**defaults, **given},
        )


def _joined(
    selection: Selection, steps: int, made: "Callable[[Selection, int], tf.data.Dataset]"
) -> "tf.data.Dataset":
    """All rows in as many batches, whose sizes differ by one at most.

    A last batch of whatever is left could have fewer rows than there are replicas: then Keras waits for ever.
    """
    least, larger = divmod(selection.rows, steps)
    cut = larger * (least + 1)
    parts = [
        made(selection.part(first, end), size)
        for first, end, size in ((0, cut, least + 1), (cut, selection.rows, least))
        if first < end
    ]
    return parts[0] if len(parts) == 1 else parts[0].concatenate(parts[1])


def _whole(name: str, given: SupportsIndex, *, least: int = 0) -> int:
    """An argument that is a whole number; raises InputError where it is not one, or is less than `least`."""
    try:
        if (number := operator.index(given)) >= least:
            return number
    except TypeError:
        pass
    raise InputError(
        f"argument {name}",
        received=repr(given),
        expected=f"a whole number of at least {least}",
        action="Correct the argument.",
    )


def _height_and_width(given: Sequence[SupportsIndex]) -> tuple[int, int]:
    try:
        height, width = map(operator.index, given)
    except (TypeError, ValueError):
        raise InputError(
            "argument image_size",
            received=repr(given),
            expected="the height and the width in pixels",
            action="Write image_size=(224, 224).",
        ) from None
    return height, width


def _share(size: int, context: "tf.distribute.InputContext | None") -> object:
    from pipeline.data.reading.sharding import Share, share_of_context

    return share_of_context(context, global_batch=size) if context else Share(global_batch=size)


def _preprocess(data: "Data", selection: Selection) -> "Preprocess":
    from pipeline.data.statistics import loading
    from pipeline.training.experiment.model import build_preprocess

    dataset = selection.dataset
    if manifest.STATISTICS_FILE_NAME not in {
        pathlib.PurePath(file.path).name for each in dataset.published for file in each.manifest.files
    }:
        raise InputError(
            f"TFRecord files in {dataset}",
            received="no statistics, by which numbers are standardised and categories numbered",
            expected="a dataset that convert wrote",
            action="Take raw batches or a source; or run `penstock convert --format=tfrecord` on the files.",
        )
    return build_preprocess(data, dataset.schema, loading.of_training(dataset))
