"""Names the damaged file and record to the user, in place of TensorFlow's error, which names neither."""

import collections
import contextlib
import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import tensorflow as tf

from pipeline.base import files
from pipeline.base.cli import signals
from pipeline.base.errors import InputError, TryAgainError
from pipeline.base.progress import Bar
from pipeline.data.dataset import manifest, tfrecord
from pipeline.data.dataset.selection import Selection
from pipeline.data.images import pixels
from pipeline.data.images.decoding import decode_image
from pipeline.data.integrity import scan
from pipeline.data.integrity.changes import Watched
from pipeline.data.integrity.scan import DamagedRecord, ScanMemory, damaged_record, stored_frame
from pipeline.data.reading import retries
from pipeline.data.schema.feature_types import Image

_LISTED = 10  # records that an error names
_AGAIN = "then repeat the command: a training run goes on from its last checkpoint."
_ALL_SOUND_NOW = (
    "All records are sound now, on this host: look at its disk and, with --data_service, at the dataset on "
    f"each service's host; {_AGAIN}"
)
# In messages of TensorFlow's parser.
_UNPARSED = re.compile(r"Name: .*, (?:Feature|Key): |Could not parse example")

# What reading raises when a file disappears or shrinks while it is read.
_OF_CHANGED_FILES = (tf.errors.NotFoundError, tf.errors.OutOfRangeError, tf.errors.InvalidArgumentError)


@contextlib.contextmanager
def naming_damage(*selections: Selection) -> Iterator[None]:
    """Turns what TensorFlow raises over damaged files into an InputError that names file, record and byte.

    It also names a file that no try can read, one that shrinks while it is mapped (which would end the
    process without a message), and the first record whose image is refused or does not decode. It then checks
    all of the selections, so that the error names all damage at once.
    """
    try:
        with signals.answer_bus_errors(lambda: _lost_page(selections)):
            yield
    except tf.errors.DataLossError as error:
        _check_files(selections)
        raise _damaged(selections, error.message) from None
    except _OF_CHANGED_FILES as error:
        _check_files(selections)
        if (found := decoding_problem(selections, error.message)) is not None:
            raise found from None
        if _UNPARSED.search(error.message):
            raise _unparsed(selections, error.message) from None
        raise
    except UnicodeDecodeError:  # TensorFlow's message holds the bytes that it could not parse
        raise _unparsed(selections, "not a tf.train.Example") from None
    except READING_ERRORS as error:
        with contextlib.suppress(OSError):  # a disk that fails may not tell sizes either
            _check_sizes(selections)
        if (found := reading_problem(selections, error.message)) is not None:
            raise found from None
        raise


def _check_files(selections: Sequence[Selection]) -> None:
    _check_sizes(selections)
    Watched(selections).check()


def _check_sizes(selections: Sequence[Selection]) -> None:
    for selection in selections:
        manifest.check_files(selection.dataset.directory, selection.dataset.manifest)


def _unparsed(selections: Sequence[Selection], reason: str) -> InputError:
    return InputError(
        f"dataset {', '.join(str(selection.dataset) for selection in selections)}",
        received=f"a sound record that its schema does not describe ({reason})",
        expected="records as beam_jobs.convert writes them",
        action="Name it with `python -m beam_jobs.verify`; convert the raw data again.",
    )


def _lost_page(selections: Sequence[Selection]) -> InputError:
    try:
        _check_files(selections)
    except InputError as error:
        return error
    return InputError(
        f"a mapped file of dataset {', '.join(str(selection.dataset) for selection in selections)}",
        received="a part that cannot be read any more (SIGBUS)",
        expected="files that stay as they are, on a disk that works",
        action=f"Look at the system's log; {_AGAIN}",
    )


def listed(damaged: Sequence[DamagedRecord]) -> str:
    """Renders the damaged records: how many there are, and where the first ones are."""
    count = f"{len(damaged):,} damaged record{'s' * (len(damaged) != 1)}"
    more = f"; and {len(damaged) - _LISTED:,} more" if len(damaged) > _LISTED else ""
    return f"{count}: {'; '.join(map(str, damaged[:_LISTED]))}{more}"


def _damaged(selections: Sequence[Selection], message: str) -> InputError:
    found = [(selection, scan.damaged_records(selection)) for selection in selections]
    where = [
        f"dataset {selection.dataset}, split '{selection.expression}'"
        for selection, damaged in found
        if damaged or not any(each for _, each in found)
    ]
    damaged = list({record.key: record for _, each in found for record in each}.values())
    lost = sum(record.rows for record in damaged)
    rows = f"{lost:,} row{'s' * (lost != 1)}"
    without = (
        f"; or do without {rows}: --max_corrupt_records={len(damaged)}, and for training an empty --workdir"
    )
    return InputError(
        "; ".join(where),
        received=listed(damaged) if damaged else f"a record that was damaged as it was read ({message})",
        expected="the bytes that were published, by each record's checksum",
        action=f"Restore the file from a copy, or convert the raw data again{without}."
        if damaged
        else _ALL_SOUND_NOW,
    )


# --- Names the record whose image does not decode: TensorFlow's error says only what is wrong.
# The part of a message that is about TensorFlow's own graph.
_NODE = re.compile(r"\{\{.*?\}\}\s*|\s*\[Op:.*|\n.*", re.DOTALL)


def decoding_problem(selections: Sequence[Selection], message: str) -> InputError | None:
    """The error of the first selected record whose image does not decode; None without one.

    Decodes the images up to that one again.

    Args:
      message: the message of the error that ended the reading.
    """
    for selection in selections:
        for record, reason in _undecodable(selection):
            where = f"dataset {selection.dataset}, split '{selection.expression}', {record}"
            return pixels.size_refusal(reason, where=f"image of {where}") or _undecoded(where, reason)
    return pixels.size_refusal(message)


def _undecodable(selection: Selection) -> Iterator[tuple[DamagedRecord, str]]:
    """Records whose image does not decode, with TensorFlow's message, in stored order."""
    images = selection.dataset.schema.of_type(Image)
    ranges = selection.record_ranges if images else ()
    count = sum(last - first for first, last in ranges)
    numbers = itertools.chain.from_iterable(itertools.starmap(range, ranges))
    shown = Bar(numbers, total=count, desc="looking for the image", unit="record")
    for number in shown:
        shard = selection.shards.shard_of_record(number)
        payload = stored_frame(selection, shard, number)[0][tfrecord.HEADER_BYTES : -tfrecord.CRC_BYTES]
        for image in images:
            try:
                _decode(payload, image)
            except tf.errors.InvalidArgumentError as error:
                reason = _NODE.sub("", error.message)
                yield damaged_record(selection, shard, number, f"image '{image.name}'"), reason


def _decode(example: bytes, image: Image) -> None:
    parsed = tf.io.parse_single_example(example, {image.name: tf.io.FixedLenFeature([], tf.string, "")})
    decode_image(parsed[image.name], channels=image.channels, max_pixels=image.max_pixels)


def _undecoded(where: str, reason: str) -> InputError:
    return InputError(
        where,
        received=f"an image that does not decode ({reason})",
        expected="images that TensorFlow decodes, as beam_jobs.convert checks them",
        action="Leave that image out or save it anew, and convert the raw data again.",
    )


# --- Names the file and byte that could not be read: TensorFlow's error says at most which file.

# Errors of a file system, besides damage and files that are gone or too short.
READING_ERRORS = (
    tf.errors.AbortedError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
    tf.errors.PermissionDeniedError,
    tf.errors.ResourceExhaustedError,
    tf.errors.UnauthenticatedError,
    tf.errors.UnavailableError,
    tf.errors.UnknownError,
)


def reading_problem(selections: Sequence[Selection], message: str) -> TryAgainError | None:
    """The error for the shard that the `message` of TensorFlow's error names; None if it names none."""
    paths = itertools.chain.from_iterable(selection.shards.paths for selection in selections)
    path = next((path for path in paths if path in message), None)
    if path is None:
        return None
    reason = re.search(rf"{re.escape(path)};? *([^\n\[{{]*)", message)[1].strip()
    offset = retries.last_offset(path)
    return TryAgainError(
        f"dataset file {path}{'' if offset is None else f' at byte {offset:,}'}",
        received=f"{reason or 'an error'}, after {len(files.RETRY_WAITS_S) + 2} tries or more",
        expected="a file that can be read",
        action=f"Look after the disk or the network; {_AGAIN}",
    )


# --- Leaves damaged records out before a run starts, as many as a budget allows.

_FLAG = "--max_corrupt_records"

_NO_MEMORY = ScanMemory(None)

Damage = tuple[DamagedRecord, ...]


def sound_selection(
    selections: Mapping[str, Selection],
    *,
    budget: int,
    known: Sequence[DamagedRecord] | None = None,
    memory: ScanMemory = _NO_MEMORY,
) -> tuple[dict[str, Selection], Damage]:
    """The selections without their damaged records, and these records.

    No record is left out later, so the order of all others stays a pure function of seed and position. The
    run keeps the list of damaged records: another process needs no more to read the same stream. With a
    budget of 0 nothing is read ahead: the first damaged record ends the run.

    Args:
      budget: most records that may be left out of all selections together.
      known: the records that the run has left out since its start; None if it starts now.
      memory: what was found before; files in it are not read again.

    Raises:
      InputError: more is damaged than the budget allows, or than `known` says.
    """
    if len(known or ()) > budget:
        raise _exceeded(f"{budget}, in a run that goes on without {listed(known)}", len(known))
    if not budget:
        return dict(selections), ()
    found = {record.key: record for each in selections.values() for record in memory.damaged(each)}
    memory.save()
    if known is None:
        known = tuple(found.values())
        if len(known) > budget:
            raise _exceeded(f"{budget} for {listed(known)}", len(known))
    expected = {record.key for record in known}
    new = [record for key, record in found.items() if key not in expected]
    if new:
        raise _is_new(new)
    return {name: without_damaged(each, known) for name, each in selections.items()}, tuple(known)


def without_damaged(selection: Selection, damaged: Iterable[DamagedRecord]) -> Selection:
    """The selection without the damaged records; what is left counts as checked."""
    left = selection.without(_numbers(selection, damaged))
    if not left.rows:
        raise InputError(
            f"dataset {selection.dataset}, split '{selection.expression}'",
            received="damage in every record",
            expected="at least one sound record",
            action="Restore the files from a copy, or convert the raw data again.",
        )
    return dataclasses.replace(left, is_checked=True)


def _numbers(selection: Selection, damaged: Iterable[DamagedRecord]) -> Iterator[int]:
    """The numbers of damaged records over all shards; of two equal datasets, both lose the records."""
    by_file = collections.defaultdict(list)
    for record in damaged:
        by_file[record.dataset, record.file].append(record.ordinal)
    starts = selection.shards.record_starts.tolist() if by_file else []
    for name, start in zip(selection.shards.names, starts, strict=False):
        dataset, file = selection.dataset.owner(name)
        for ordinal in by_file.get((dataset.manifest.digest, file), ()):
            yield start + ordinal


def damage_to_json(damaged: Damage) -> dict:
    return {
        "rows": sum(record.rows for record in damaged),
        "records": [dataclasses.asdict(one) for one in damaged],
    }


def damage_from_json(document: Mapping) -> Damage:
    return tuple(DamagedRecord(**record) for record in document["records"])


def _exceeded(received: str, needed: int) -> InputError:
    return InputError(
        _FLAG,
        received=received,
        expected=f"at least {needed:,} to go on without them",
        action=f"Restore the files from a copy, convert the raw data again, or set {_FLAG}={needed}.",
    )


def _is_new(new: Sequence[DamagedRecord]) -> InputError:
    return InputError(
        "--workdir",
        received=listed(new),
        expected="only the damage that the run has left out since its start: the order depends on it",
        action="Restore the files from a copy, or start again in an empty --workdir.",
    )
