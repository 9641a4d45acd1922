"""The training stream of a run from any step: its batches, and the records they are made of.

A step is counted from 0, by the steps that are done before it: the batch of step N makes N steps N + 1.
"""

import collections
import dataclasses
import functools
import glob
import itertools
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.dataset import blocks, tfrecord
from pipeline.data.dataset import statistics as statistics_lib
from pipeline.data.dataset.manifest import TRAIN, Dataset
from pipeline.data.dataset.selection import Selection
from pipeline.data.dataset.window import open_window, together
from pipeline.data.images.augmentation import Augmentation
from pipeline.data.input.batches import training_batches
from pipeline.data.input.training import Targets, TargetsOfBatch
from pipeline.data.integrity import damage, scan
from pipeline.data.integrity.damage import naming_damage
from pipeline.data.origins.reader import RawRow, raw_rows
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading import order, parsing, stream
from pipeline.data.reading.plan import ReadPlan, TrainingData, main_of, parts_of
from pipeline.data.reading.sharding import Share, rebatched
from pipeline.data.schema.schema import Schema
from pipeline.report.formats import shortened
from pipeline.training.experiment import config, data
from pipeline.training.experiment.config import Data
from pipeline.training.experiment.model import build_preprocess
from pipeline.training.state import run_record
from pipeline.training.state import workdir as files
from pipeline.training.state.run_record import RunRecord
from pipeline.training.state.workdir import Workdir

# --- The datasets of a run, found again: at their old or their new place.
#
# The digest in run.json decides: a dataset that was published again under the same name is another one.


_DIGITS = 12  # characters of a digest that are shown
_CHARACTERS = 200  # characters of a raw row that are shown, with its file and line

_Moved = Mapping[str, list[str]]  # directories or globs of moved datasets, by digest


def datasets_of_run(
    record: RunRecord, data: Data, *, moved_to: Sequence[str | pathlib.Path] = ()
) -> tuple[Dataset, Data]:
    """The run's dataset, and `data` with the present places of a mixture's datasets.

    Args:
      moved_to: directories of datasets that are no longer where they were, or globs of them.

    Raises:
      InputError: a dataset is missing, or is another one; or a directory holds no dataset of the run.
    """
    mixed = _mixed(record, data)
    moved = _moved(moved_to, wanted=[digest for _, digest in (*record.datasets, *mixed)])
    found = together([_find(directory, digest, moved)[1] for directory, digest in record.datasets])
    mixture = tuple(
        dataclasses.replace(each, directory=_find(directory, digest, moved)[0])
        for each, (directory, digest) in zip(data.mixture, mixed, strict=True)
    )
    return found, dataclasses.replace(data, mixture=mixture)


def _mixed(record: RunRecord, data: Data) -> list[tuple[str, str]]:
    """Directory or glob, and digest, of a mixture's datasets."""
    others = [each.directory for each in data.mixture]
    return list(zip(others, record.mixture_digests, strict=True))


def _moved(moved_to: Sequence[str | pathlib.Path], *, wanted: Sequence[str]) -> _Moved:
    """Returns the named datasets by digest. If a glob as a whole is not a dataset of the run, each dataset in
    it is returned.
    """
    moved = collections.defaultdict(list)
    for pattern in map(str, moved_to):
        named = open_window([pattern])
        each = [named] if named.manifest.digest in wanted else named.published
        for dataset in each:
            if dataset.manifest.digest not in wanted:
                names = " or ".join(dict.fromkeys(_short(digest) for digest in wanted))
                raise _other(str(dataset.directory), dataset.manifest.digest, names)
            moved[dataset.manifest.digest].append(pattern if dataset.members else str(dataset.directory))
    return moved


def _find(directory: str, digest: str, moved: _Moved) -> tuple[str, Dataset]:
    """Returns the present place of a dataset, and the dataset. Where several places hold the same bytes, each
    is taken once.
    """
    places = moved.get(digest, [])
    place = places[0] if len(places) == 1 else places.pop(0) if places else directory
    if not glob.has_magic(place) and not pathlib.Path(place).exists():
        raise InputError(
            f"dataset {directory}",
            received="no such directory",
            expected="the dataset that the run trained on",
            action="Name the directory where it is now: --dataset=DIRECTORY.",
        )
    found = open_window([place])
    if found.manifest.digest != digest:
        raise _other(directory, found.manifest.digest, _short(digest))
    return place, found


def _other(directory: str, received: str, expected: str) -> InputError:
    return InputError(
        f"dataset {directory}",
        received=f"digest {_short(received)}",
        expected=f"{expected}, that of the dataset that the run trained on",
        action="Restore that version of the dataset, or name where it is: --dataset=DIRECTORY.",
    )


def _short(digest: str) -> str:
    return f"{digest[:_DIGITS]}…"


# --- The record at a position of the training stream: its dataset, file, and place in the file.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """One example of a batch, identified by the place where it is stored."""

    position: int  # number in the training stream, from 0
    epoch: int  # from 0
    dataset: str  # directory
    split: str
    file: str  # path relative to the dataset
    ordinal: int  # number of the record in its file, from 0
    row: int | None  # number in the record, from 0, if a record is a block of rows; else None
    part: int  # number of the part of the mixture, from 0; 0 if there is no mixture
    number: int  # number of the row over all shards of the part's selection


def records_of(data: TrainingData, positions: np.ndarray, numbers: np.ndarray) -> tuple[Record, ...]:
    """The records at `positions`, int64 [n]; `numbers`, int64 [n, 2], comes from `stream.read_numbers`."""
    selections, rows_in_epoch = parts_of(data), data.rows
    splits = [_split_by_file(selection) for selection in selections]
    return tuple(
        _record(selections[part], splits[part], position, part, number, rows_in_epoch)
        for position, (part, number) in zip(positions.tolist(), numbers.tolist(), strict=True)
    )


def _record(
    selection: Selection, splits: Mapping[str, str], position: int, part: int, number: int, in_epoch: int
) -> Record:
    shards = selection.shards
    shard, record = shards.shard_of_row(number), shards.record_of_row(number)
    file = shards.names[shard]
    return Record(
        position=position,
        epoch=position // in_epoch,
        dataset=str(selection.dataset.directory),
        split=splits[file],
        file=file,
        ordinal=record - int(shards.record_starts[shard]),
        row=number - shards.rows_of_record(record)[0] if shards.rows_in_record > 1 else None,
        part=part,
        number=number,
    )


def _split_by_file(selection: Selection) -> dict[str, str]:
    splits = selection.dataset.manifest.splits
    return {shard.path: split for split, shards in splits.items() for shard in shards}


Batch = tuple[dict[str, tf.Tensor], TargetsOfBatch]  # inputs and targets of a global batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingStream:
    """The stream of a run, in any process: it depends only on the experiment and the data.

    Nothing before a step is read. The graph that reads one step is traced once, for all of them.
    """

    args: Data
    data: TrainingData  # without the records that the run leaves out
    preprocess: Preprocess

    @property
    def schema(self) -> Schema:
        return main_of(self.data).dataset.schema

    @property
    def targets(self) -> Targets:
        """Makes the targets, the second part of a batch."""
        return data.targets(self.args, self.schema)

    def batch(self, step: int) -> Batch:
        """The global batch as the model gets it: the batches of all replicas, in order.

        Raises:
          InputError: a record is damaged.
        """
        with naming_damage(*parts_of(self.data)):
            return self._batch(tf.constant(step, tf.int64))

    def records(self, step: int) -> tuple[Record, ...]:
        """The records of the same batch, in the same order."""
        positions, numbers = self._numbers(tf.constant(step, tf.int64))
        return records_of(self.data, positions.numpy(), numbers.numpy())

    def batches(self, first: int, *, steps: int) -> Iterator[Batch]:
        """The batches of consecutive steps, which take less time together; raises what `batch` raises."""
        with naming_damage(*parts_of(self.data)):
            yield from itertools.islice(self._batches(first), steps)

    @functools.cached_property
    def _batch(self) -> Callable[[tf.Tensor], Batch]:
        return _of_step(lambda step: self._batches(step, most_at_once=1))

    @functools.cached_property
    def _numbers(self) -> Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
        size = self.args.global_batch
        return _of_step(lambda step: rebatched(stream.read_numbers(self._plan(step)), size))

    def _batches(self, first: int | tf.Tensor, *, most_at_once: int | None = None) -> tf.data.Dataset:
        return training_batches(
            self._plan(first),
            self.preprocess,
            augmentation=self.args.augmentation,
            targets=self.targets,
            most_at_once=most_at_once,
        )

    def _plan(self, step: int | tf.Tensor) -> ReadPlan:
        """Plans reading for one host and one replica, because a global batch does not depend on their
        number.
        """
        global_batch = self.args.global_batch
        return data.read_plan(
            self.args, self.data, share=Share(global_batch=global_batch), position=step * global_batch
        )


def _of_step(read: Callable[[tf.Tensor], tf.data.Dataset]) -> Callable[[tf.Tensor], tuple]:
    """A function from a step, int64 [], to the first element that `read` gives from there on.

    Tracing a pipeline takes a second or more, running it milliseconds.
    """

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([], tf.int64)])
    def first(step: tf.Tensor) -> tuple:
        return read(step).take(1).get_single_element()

    return first


# --- Opens the training stream of a run from its working directory and its datasets, even when the run is
# over.


def open_stream(
    run: Workdir, record: RunRecord, *, moved_to: Sequence[str | pathlib.Path] = ()
) -> TrainingStream:
    """Opens the training stream of a run.

    Args:
      moved_to: present places of datasets of the run that were moved.

    Raises:
      InputError: there is no such dataset, or it is another one; or the run's order of rows, or its
        augmentation of images, has a version that this program does not know.
    """
    args = config.parse(record.config).data
    _require_known_versions(record, args.augmentation)
    run_record.check_files(run.path, record)
    run_record.require_left_out(run.path, record)
    found, args = datasets_of_run(record, args, moved_to=moved_to)
    selections = data.selections_of(args, found)
    sound = {name: _as_trained(each, run) for name, each in selections.items()}
    statistics = statistics_lib.read(run.statistics)[TRAIN]
    return TrainingStream(
        args=args,
        data=data.training_data(args, sound),
        preprocess=build_preprocess(args, found.schema, statistics),
    )


def _as_trained(selection: Selection, run: Workdir) -> Selection:
    """Returns the selection without the records that the run left out.

    It counts as checked: damage elsewhere changes no batch, and reading everything may take hours. The
    records of a reported step are compared with their hashes.
    """
    left_out = files.read_json(run.damaged, is_needed=True)
    if left_out:
        selection = damage.without_damaged(selection, damage.damage_from_json(left_out))
    return dataclasses.replace(selection, is_checked=True)


def _require_known_versions(record: RunRecord, augmentation: Augmentation) -> None:
    """Raises InputError for an unknown version of the order of rows or of image augmentation."""
    for thing, was, is_ in (
        ("order of rows", record.order, order.VERSION),
        ("augmentation of images", record.augmentation, augmentation.version),
    ):
        if was != is_:
            raise InputError(
                f"--workdir, {thing}",
                received=f"version {was}",
                expected=f"version {is_}, which this Penstock has",
                action="Replay it with the Penstock that trained it: run.json names its version or commit.",
            )


# --- Reads single records by their place in the file, and compares them with what was published.


def payload(data: TrainingData, record: Record) -> bytes:
    """The serialized example of a record.

    Raises:
      InputError: its checksum, or its hash in the index, shows that it is not what was published.
    """
    selection = parts_of(data)[record.part]
    shards = selection.shards
    shard, number = shards.shard_of_row(record.number), shards.record_of_row(record.number)
    frame, reason = scan.stored_frame(selection, shard, number)
    if reason:
        raise _damaged(selection, str(scan.damaged_record(selection, shard, number, reason)))
    return frame[tfrecord.HEADER_BYTES : -tfrecord.CRC_BYTES]


def require_sound(data: TrainingData, records: Iterable[Record]) -> None:
    """Raises InputError where one of the records is not what was published.

    This is needed for blocks that are mapped into memory, whose checksums are not compared when they are
    read.
    """
    distinct = {(record.part, record.file, record.ordinal): record for record in records}
    for record in distinct.values():
        payload(data, record)


def _damaged(selection: Selection, what: str) -> InputError:
    return InputError(
        f"dataset {selection.dataset}",
        received=f"a damaged record: {what}",
        expected="the bytes that were published, by the record's checksum",
        action="Restore the file from a copy, or convert the raw data again.",
    )


# --- Reads the stored features of single records by their place in the file.


RawFeatures = dict[str, np.ndarray]  # by feature, with the label; bytes where it is a string


def raw_features(data: TrainingData, records: Sequence[Record]) -> list[RawFeatures]:
    """The stored features of each record, [*feature.shape] each.

    Raises:
      InputError: a record is not the one that was published.
    """
    schema = main_of(data).dataset.schema
    return [_parsed(payload(data, record), record, schema) for record in records]


def _parsed(payload: bytes, record: Record, schema: Schema) -> RawFeatures:
    if record.row is None:
        columns = tf.io.parse_example(tf.constant([payload]), parsing.parsing_spec(schema))
    else:
        words = parsing.words_of_blocks(tf.constant([payload]), schema)[record.row][None]
        columns = parsing.raw_of_compact(parsing.features_of_words(words, schema), schema)
    return {name: np.asarray(column[0]) for name, column in columns.items()}


# --- The raw rows of a run's records, as the datasets that it trains on know them.


def origins_of(data: TrainingData, records: Sequence[Record]) -> list[RawRow | None]:
    """The raw row of each record; None where its dataset does not know it. It never fails if one is
    missing.
    """
    found: list[RawRow | None] = [None] * len(records)
    for part, selection in enumerate(parts_of(data)):
        mine = [index for index, record in enumerate(records) if record.part == part]
        in_block = blocks.geometry(selection.dataset.schema).rows if _has_blocks(records, mine) else 1
        places = [(records[index].file, _row(records[index], in_block)) for index in mine]
        for index, raw in zip(mine, raw_rows(selection.dataset, places), strict=True):
            found[index] = raw
    return found


def _has_blocks(records: Sequence[Record], some: Sequence[int]) -> bool:
    return any(records[index].row is not None for index in some)


def _row(record: Record, in_block: int) -> int:
    """The number of the record's row in the file."""
    return record.ordinal if record.row is None else record.ordinal * in_block + record.row


def place(record: Record) -> str:
    """Formats where a record is stored: its file, its ordinal there, and its row where it is a block."""
    row = "" if record.row is None else f", row {record.row:,}"
    return f"{record.file}, record {record.ordinal:,}{row}"


def raw_row_note(raw: RawRow | None) -> str:
    """Formats a note such as `; raw row visits.csv line 26: 26,Genf,1,no`, or the part that is known; may be
    empty.
    """
    if raw is None:
        return ""
    return f"; raw row {shortened(str(raw) if raw.text is None else f'{raw}: {raw.text}', _CHARACTERS)}"
