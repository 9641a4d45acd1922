"""What a command is called with: its flags under headings, and what stands behind them."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from absl import flags

from pipeline.data.commands.config_keys import Key


@dataclasses.dataclass(frozen=True, kw_only=True)
class Command:
    """What a command is called with.

    Attributes:
      name: the module, as behind `python -m`.
      description: what it does, with examples: the module's docstring.
      flags: every flag of the command, under the headings of --help.
      required: those of them that must have a value.
      arguments: what stands behind the flags, such as `DIR`; empty where nothing may.
      unknown: given flags that this command has not, returns those that nobody else knows either; None
        where nobody else is asked.
      config_keys: the keys of --config, where there is such a flag.
    """

    name: str
    description: str
    flags: Mapping[str, Sequence[flags.FlagHolder]]
    required: Sequence[flags.FlagHolder] = ()
    arguments: str = ""
    unknown: Callable[[Sequence[str]], Sequence[str]] | None = None
    config_keys: Callable[[], Sequence[Key]] | None = None
