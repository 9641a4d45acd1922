"""Single records, read by their place in their file, and compared with what was published."""

from collections.abc import Iterable

from pipeline.data.dataset import tfrecord
from pipeline.data.dataset.selection import Selection
from pipeline.data.errors import InputError
from pipeline.data.integrity import checksums
from pipeline.data.reading.mixture import TrainingData, parts_of
from pipeline.training.replaying.record import Record


def payload(data: TrainingData, record: Record) -> bytes:
    """The serialized example of a record.

    Raises:
      InputError: it is not what was published, by its checksum or its hash in the index.
    """
    selection = parts_of(data)[record.part]
    shards = selection.shards
    shard, number = shards.shard_of_row(record.number), shards.record_of_row(record.number)
    frame, reason = checksums.stored_frame(selection, shard, number)
    if reason:
        raise _damaged(selection, str(checksums.described(selection, shard, number, reason)))
    return frame[tfrecord.HEADER_BYTES : -tfrecord.CRC_BYTES]


def require_sound(data: TrainingData, records: Iterable[Record]) -> None:
    """Raises InputError where one of the records is not what was published.

    Blocks that are mapped into memory are read without a look at their checksums.
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
