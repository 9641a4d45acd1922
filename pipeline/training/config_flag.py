"""Parses the flags of binaries that take a config file: a wrong one gets one line instead of a traceback."""

import sys
from collections.abc import Sequence

from absl import flags

from pipeline.data.errors import InputError, answers_bad_input

CONFIG_FLAG = "config"


def parse_flags(argv: Sequence[str]) -> list[str]:
    """For `app.run(main, flags_parser=parse_flags)`: says what is wrong and exits, where absl would raise."""
    remaining: list[str] = []
    exit_code = answers_bad_input(lambda argv: remaining.extend(_parse(argv)))(argv)
    if exit_code:
        sys.exit(exit_code)
    return remaining


def _parse(argv: Sequence[str]) -> list[str]:
    try:
        remaining = flags.FLAGS(list(argv))
        # ml_collections says only at the first look into it that a config file could not be read.
        _ = flags.FLAGS[CONFIG_FLAG].value.is_locked
    except flags.Error as error:
        raise InputError(
            "command line",
            received=str(error),
            expected="the flags that --help lists",
            action="Correct the flag.",
        ) from None
    except (AttributeError, KeyError) as error:  # how ml_collections says that a config has no such key
        overrides = [argument for argument in argv if argument.startswith("--config.")]
        raise InputError(
            f"config overrides {' '.join(overrides)}",
            received=f"a key that the config does not have: {_innermost(error)}",
            expected="keys of the config file, which pipeline/configs/base.py lists",
            action="Correct the key; its type must be that of its default.",
        ) from None
    except OSError as error:
        raise _no_config_file(error) from None
    if len(remaining) > 1:
        raise InputError(
            "command line",
            received=f"the argument '{remaining[1]}'",
            expected="flags only",
            action="Write --flag=value; --help lists the flags.",
        )
    return remaining


def _innermost(error: BaseException) -> str:
    """The message of the error that others were wrapped around, on one line."""
    first = error.args[0] if error.args else ""
    return _innermost(first) if isinstance(first, BaseException) else " ".join(str(first).split())


def _no_config_file(error: OSError) -> InputError:
    return InputError(
        "--config",
        received=" ".join(str(error).split()).rsplit("] ")[-1],  # what follows ml_collections' own list
        expected="a Python file with a function get_config()",
        action="Start from one in pipeline/configs.",
    )
