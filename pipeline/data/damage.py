"""What a user is told where stored data is not what was published, instead of TensorFlow's nameless error."""

import contextlib
from collections.abc import Iterator, Sequence

import tensorflow as tf

from pipeline.data import manifest, scan
from pipeline.data.errors import InputError
from pipeline.data.image_limit import naming_refused_images
from pipeline.data.scan import DamagedRecord
from pipeline.data.selection import Selection

LISTED = 10  # records that are named in an error

# What reading ends with where a file disappears or shrinks under the reader's feet.
_OF_CHANGED_FILES = (tf.errors.NotFoundError, tf.errors.OutOfRangeError, tf.errors.InvalidArgumentError)


@contextlib.contextmanager
def naming_damage(*selections: Selection) -> Iterator[None]:
    """Turns what TensorFlow raises over damaged files into an InputError that names file, record and byte.

    All of the selections are checked then, so that everything that is damaged is named at once. Images that
    are refused are named, too.
    """
    try:
        with naming_refused_images():
            yield
    except tf.errors.DataLossError as error:
        _check_files(selections)
        raise _damaged(selections, error.message) from None
    except _OF_CHANGED_FILES:
        _check_files(selections)
        raise


def _check_files(selections: Sequence[Selection]) -> None:
    for selection in selections:
        manifest.check_files(selection.dataset.directory, selection.dataset.manifest)


def listed(damaged: Sequence[DamagedRecord]) -> str:
    """The damaged records in words, the first ones by place."""
    count = f"{len(damaged):,} damaged record{'s' * (len(damaged) != 1)}"
    more = f"; and {len(damaged) - LISTED:,} more" if len(damaged) > LISTED else ""
    return f"{count}: {'; '.join(map(str, damaged[:LISTED]))}{more}"


def _damaged(selections: Sequence[Selection], message: str) -> InputError:
    found = [(selection, scan.damaged_records(selection)) for selection in selections]
    places = [
        f"dataset {selection.dataset.directory}, split '{selection.expression}'"
        for selection, damaged in found
        if damaged or not any(each for _, each in found)
    ]
    damaged = list({record.place: record for _, each in found for record in each}.values())
    lost = sum(record.rows for record in damaged)
    without = f"; or do without {lost:,} rows: --max_corrupt_records={len(damaged)} and an empty --workdir"
    return InputError(
        "; ".join(places),
        received=listed(damaged) if damaged else f"a record that was damaged as it was read ({message})",
        expected="the bytes that were published, by each record's checksum",
        action=f"Restore the file from a copy, or convert the raw data again{without if damaged else ''}.",
    )
