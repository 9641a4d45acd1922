"""TFRecord files of `tf.train.Example` that others wrote, plain or gzip, whatever their name."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from google.protobuf.message import Message

from beam_jobs.cells import text
from beam_jobs.sources.bytes.batches import in_batches
from beam_jobs.sources.bytes.example_proto import NoExampleError, features_of
from beam_jobs.sources.bytes.tfrecord_frames import Frame, read_frames
from beam_jobs.sources.pieces import files
from beam_jobs.sources.pieces.rejections import Rejection
from beam_jobs.sources.pieces.source import Input, Piece, RawRows
from pipeline.data.errors import InputError

_TYPES = {"bytes_list": pa.binary(), "float_list": pa.float32(), "int64_list": pa.int64()}

Features = dict[str, Message]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleFiles:
    """A column for each key, of lists; a piece for each file. A key without values is a missing value.

    A record with a wrong checksum is one rejected row, and so is a record that is no Example. If the first
    record is none, the file is refused: then most likely none is.
    """

    batch_rows: int = 1 << 12

    def pieces(self, inputs: Iterable[Input]) -> list[Piece]:
        return files.one_piece_a_file(inputs)

    def read(self, piece: Piece) -> Iterator[RawRows]:
        [path] = piece.paths
        try:
            with files.open_stream(path, sniff=True) as stream:
                numbered = enumerate(read_frames(stream, path), 1)
                for batch in in_batches(
                    numbered, at_most=self.batch_rows, size=lambda frame: len(frame[1].payload)
                ):
                    yield _raw_rows(piece, batch)
        except (OSError, EOFError) as error:
            raise _error(path, f"something that does not decompress ({error})") from None


def _raw_rows(piece: Piece, batch: Sequence[tuple[int, Frame]]) -> RawRows:
    rows: list[Features] = []
    numbers: list[int] = []
    rejected: list[Rejection] = []
    for number, frame in batch:
        try:
            if not frame.is_intact:
                raise NoExampleError("checksum of the record does not match")
            rows.append(features_of(frame.payload))
            numbers.append(number)
        except NoExampleError as error:
            if number == 1 and frame.is_intact:
                raise _error(piece.paths[0], str(error)) from None
            rejected.append(Rejection(source=piece.name, row=number, reason=str(error)))
    return RawRows(
        columns=_columns_of(rows),
        sources=piece.name,
        numbers=np.array(numbers, np.int64),
        rejected=tuple(rejected),
        sparse=True,
        directory=files.directory_of(piece.paths[0]),
    )


def _columns_of(rows: Sequence[Features]) -> pa.RecordBatch:
    """A list column [rows] for each key that has a value in one of `rows`; null where a row has none."""
    names = sorted({name for row in rows for name in row})
    columns = {name: _column([row.get(name) for row in rows]) for name in names}
    present = {name: column for name, column in columns.items() if column.null_count < len(rows)}
    if not present:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    return pa.record_batch(present)


def _column(features: Sequence[Message | None]) -> pa.ListArray:
    kinds = [feature.WhichOneof("kind") if feature is not None else None for feature in features]
    lists = [
        list(getattr(feature, kind).value) or None if kind else None
        for feature, kind in zip(features, kinds, strict=True)
    ]
    found = {kind for kind, values in zip(kinds, lists, strict=True) if values}
    if len(found) <= 1:
        return pa.array(lists, pa.list_(_TYPES[found.pop()] if found else pa.binary()))
    # Rows disagree on the type: all of them can be written as text.
    typed = [values and pa.array(values, _TYPES[kind]) for values, kind in zip(lists, kinds, strict=True)]
    as_text = [None if values is None else text.to_bytes(values).to_pylist() for values in typed]
    return pa.array(as_text, pa.list_(pa.binary()))


def _error(path: str, received: str) -> InputError:
    return InputError(
        f"input {path}",
        received=received,
        expected="TFRecords of tf.train.Example, plain or gzip",
        action="Convert it to Examples first, one a row, or leave it out.",
    )
