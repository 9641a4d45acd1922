"""What a command tells of a result that is already in its place."""

import contextlib
import sys
from collections.abc import Iterator

from pipeline.data.errors import InputError


@contextlib.contextmanager
def of_published(result: str) -> Iterator[None]:
    """Around the summary, on stdout and in --json; `result` is such as `the dataset DIR`.

    Raises:
      InputError: the summary could not be written. It says that the result is there: else who reads of a full
        disk would run the command again.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:  # nobody reads stdout any more, on purpose
        raise
    except OSError as error:
        raise InputError(
            "the summary, on stdout or in --json",
            received=error.strerror or str(error),
            expected="a place that takes it",
            action=f"Only the summary is lost: {result} is published, and whole.",
        ) from None
