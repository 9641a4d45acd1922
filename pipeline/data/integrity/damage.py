"""Names the damaged file and record to the user, in place of TensorFlow's error, which names neither."""

import contextlib
import re
from collections.abc import Iterator, Sequence

import tensorflow as tf

from pipeline.data.commands import bus_errors
from pipeline.data.dataset import manifest
from pipeline.data.dataset.selection import Selection
from pipeline.data.errors import InputError
from pipeline.data.integrity import checksums, undecodable, unreadable
from pipeline.data.integrity.changes import Watched
from pipeline.data.integrity.checksums import DamagedRecord

_LISTED = 10  # records that an error names
_ALL_SOUND_NOW = (
    "All records are sound now, on this host: look at its disk and, with --data_service, at the dataset on "
    "each service's host; then repeat the command: a training run goes on from its last checkpoint."
)
_UNPARSED = re.compile(r"Name: .*, (?:Feature|Key): |Could not parse example")  # of TensorFlow's parser

# What reading raises when a file disappears or shrinks while it is read.
_OF_CHANGED_FILES = (tf.errors.NotFoundError, tf.errors.OutOfRangeError, tf.errors.InvalidArgumentError)


@contextlib.contextmanager
def naming_damage(*selections: Selection) -> Iterator[None]:
    """Turns what TensorFlow raises over damaged files into an InputError that names file, record and byte.

    A file that cannot be read, again and again, is named too.

    So is a file that shrinks while it is mapped, which would end the process without a word.

    It checks all of the selections then, so that the error names all damage at once. The first record whose
    image is refused, or does not decode, is named too.
    """
    try:
        with bus_errors.answered(lambda: _lost_page(selections)):
            yield
    except tf.errors.DataLossError as error:
        _check_files(selections)
        raise _damaged(selections, error.message) from None
    except _OF_CHANGED_FILES as error:
        _check_files(selections)
        if (found := undecodable.problem(selections, error.message)) is not None:
            raise found from None
        if _UNPARSED.search(error.message):
            raise _unparsed(selections, error.message) from None
        raise
    except UnicodeDecodeError:  # TensorFlow tells the bytes that it could not parse
        raise _unparsed(selections, "not a tf.train.Example") from None
    except unreadable.ERRORS as error:
        with contextlib.suppress(OSError):  # of the same disk
            _check_sizes(selections)
        if (found := unreadable.problem(selections, error.message)) is not None:
            raise found from None
        raise


def _check_files(selections: Sequence[Selection]) -> None:
    _check_sizes(selections)
    Watched(selections).check()


def _check_sizes(selections: Sequence[Selection]) -> None:
    for selection in selections:
        manifest.check_files(selection.dataset.directory, selection.dataset.manifest)


def _unparsed(selections: Sequence[Selection], told: str) -> InputError:
    return InputError(
        f"dataset {', '.join(str(selection.dataset) for selection in selections)}",
        received=f"a sound record that its schema does not describe ({told})",
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
        action="Look at the system's log; the same command goes on from the last checkpoint.",
    )


def listed(damaged: Sequence[DamagedRecord]) -> str:
    """The damaged records in words: how many there are, and where the first ones are."""
    count = f"{len(damaged):,} damaged record{'s' * (len(damaged) != 1)}"
    more = f"; and {len(damaged) - _LISTED:,} more" if len(damaged) > _LISTED else ""
    return f"{count}: {'; '.join(map(str, damaged[:_LISTED]))}{more}"


def _damaged(selections: Sequence[Selection], message: str) -> InputError:
    found = [(selection, checksums.damaged_records(selection)) for selection in selections]
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
