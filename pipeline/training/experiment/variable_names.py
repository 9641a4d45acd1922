"""Variables of a model, chosen by patterns of their names."""

import fnmatch
from collections.abc import Sequence

import keras

from pipeline.data.errors import InputError


def matching(
    patterns: Sequence[str], variables: Sequence[keras.Variable], *, key: str
) -> list[keras.Variable]:
    """Those whose path, such as `embeddings/table`, matches a pattern as file names do: `embeddings/*`.

    Raises:
      InputError: a pattern matches none; `key` is where it stands in the config.
    """
    paths = sorted(each.path for each in variables)
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(path, pattern) for path in paths):
            raise InputError(
                f"--config.{key}",
                received=f"{pattern!r}, which no variable is called",
                expected=f"patterns of {', '.join(paths)}",
                action="Correct it in the config file or on the command line; * stands for any characters.",
            )
    return [each for each in variables if any(fnmatch.fnmatchcase(each.path, one) for one in patterns)]
