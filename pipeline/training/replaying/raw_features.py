"""The features of single records as they are stored, read by their place in the file."""

import pathlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from pipeline.data.dataset import tfrecord
from pipeline.data.dataset.record_table import Shards
from pipeline.data.dataset.selection import Selection
from pipeline.data.errors import InputError
from pipeline.data.integrity import checksums
from pipeline.data.reading import block_rows, parsing
from pipeline.data.reading.mixture import TrainingData, parts_of
from pipeline.data.schema.schema import Schema
from pipeline.training.replaying.record import Record

RawFeatures = dict[str, np.ndarray]  # by feature, the label too; bytes where it is a string


def raw_features(data: TrainingData, records: Sequence[Record]) -> list[RawFeatures]:
    """The stored features of each record, [*feature.shape] each.

    Raises:
      InputError: a record is not the one that was published, by its checksum or its hash in the index.
    """
    selections = parts_of(data)
    return [_parsed(_payload(selections[one.part], one), one, _schema(selections)) for one in records]


def _schema(selections: Sequence[Selection]) -> Schema:
    return selections[0].dataset.schema


def _payload(selection: Selection, record: Record) -> bytes:
    shards = selection.shards
    shard, number = shards.shard_of_row(record.number), shards.record_of_row(record.number)
    frame = _frame(shards, shard, number)
    if reason := _problem(shards, number, frame):
        raise InputError(
            f"dataset {selection.dataset.directory}",
            received=str(checksums.described(selection, shard, number, reason)),
            expected="the bytes that were published, by the record's checksum",
            action="Restore the file from a copy, or convert the raw data again.",
        )
    return frame[tfrecord.HEADER_BYTES : -tfrecord.CRC_BYTES]


def _problem(shards: Shards, number: int, frame: bytes) -> str:
    size, content_hash = int(shards.sizes[number]), int(shards.hashes[number])
    return checksums.problem(frame, size=size, content_hash=content_hash)


def _frame(shards: Shards, shard: int, number: int) -> bytes:
    with pathlib.Path(shards.paths[shard]).open("rb") as file:
        file.seek(int(shards.offsets[number]))
        return file.read(int(shards.sizes[number]))


def _parsed(payload: bytes, record: Record, schema: Schema) -> RawFeatures:
    if record.row is None:
        columns = tf.io.parse_example(tf.constant([payload]), parsing.parsing_spec(schema))
    else:
        words = block_rows.words_of_blocks(tf.constant([payload]), schema)[record.row][None]
        columns = block_rows.raw_of_compact(block_rows.features_of_words(words, schema), schema)
    return {name: np.asarray(column[0]) for name, column in columns.items()}
