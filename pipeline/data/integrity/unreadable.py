"""Names the file and byte that could not be read: TensorFlow's error says at most which file."""

import itertools
import re
from collections.abc import Sequence

import tensorflow as tf

from pipeline.data import retried
from pipeline.data.dataset.selection import Selection
from pipeline.data.errors import TryAgainError
from pipeline.data.reading.fetching import failed_reads

# What a file system answers with, beside damage and files that are gone or too short.
ERRORS = (
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


def problem(selections: Sequence[Selection], message: str) -> TryAgainError | None:
    """What to tell of the shard that `message`, of TensorFlow's error, names; None where it names none."""
    paths = itertools.chain.from_iterable(selection.shards.paths for selection in selections)
    path = next((path for path in paths if path in message), None)
    if path is None:
        return None
    reason = re.search(rf"{re.escape(path)};? *([^\n\[{{]*)", message)[1].strip()
    offset = failed_reads.last_offset(path)
    return TryAgainError(
        f"dataset file {path}{'' if offset is None else f' at byte {offset:,}'}",
        received=f"{reason or 'an error'}, after {len(retried.WAITS_S) + 2} tries or more",
        expected="a file that can be read",
        action="Look after the disk or the network; the same command goes on from the last checkpoint.",
    )
