"""What --help prints: the description with its examples, every flag under its heading, the config's keys."""

import textwrap
from collections.abc import Iterator, Sequence

from absl import flags

from pipeline.data.commands import flag_text
from pipeline.data.commands.command import Command
from pipeline.data.commands.config_keys import Key

_WIDTH = 100
_KEY_WIDTH = 44


def text(command: Command) -> str:
    """The whole page."""
    sections = [f"{_usage(command)}\n\n{command.description.strip()}"]
    required = {holder.name for holder in command.required}
    for heading, holders in command.flags.items():
        shown = [described(flags.FLAGS[holder.name], required=holder.name in required) for holder in holders]
        sections.append("\n".join([heading, *shown]))
    if command.config_keys:
        sections.append(_keys(command.config_keys()))
    return "\n\n".join(sections)


def _usage(command: Command) -> str:
    needed = [_assignment(flags.FLAGS[holder.name]) for holder in command.required]
    return " ".join(["usage: python -m", command.name, "[FLAGS]", *needed, command.arguments]).rstrip()


def _assignment(flag: flags.Flag) -> str:
    placeholder, _ = flag_text.placeholder_and_help(flag)
    return f"--{flag.name}={placeholder}"


def described(flag: flags.Flag, *, required: bool) -> str:
    """The lines on one flag: its name with a placeholder, and below what it does."""
    name = f"--[no]{flag.name}" if flag.boolean else _assignment(flag)
    _, sentences = flag_text.placeholder_and_help(flag)
    notes = " ".join((sentences, *_notes(flag, required=required)))
    return f"  {name}\n{textwrap.fill(notes, _WIDTH, initial_indent='      ', subsequent_indent='      ')}"


def _notes(flag: flags.Flag, *, required: bool) -> Iterator[str]:
    expected = flag_text.expected(flag)
    if "number" in expected:
        yield f"{expected[0].upper()}{expected[1:]}."
    if isinstance(flag, flags.MultiFlag):
        yield "Repeats."
    if required:
        yield "Required."
    elif flag.default is not False and flag.default not in (None, "", []):
        yield f"(default: {flag.default})"


def _keys(keys: Sequence[Key]) -> str:
    lines = ["Keys of the config: --config.KEY=VALUE overrides the file. Defaults, where the file sets none:"]
    for key in keys:
        name = f"  {key.name}={_shown(key.default)}"
        meaning = textwrap.fill(
            f"{key.type}; {key.meaning}",
            _WIDTH,
            initial_indent=name.ljust(_KEY_WIDTH),
            subsequent_indent=" " * _KEY_WIDTH,
        )
        lines.append(meaning)
    return "\n".join(lines)


def _shown(value: object) -> str:
    """A default as one would write it behind `=`; numbers of a tuple in four digits."""
    if isinstance(value, tuple):
        return ",".join(f"{part:.4g}" if isinstance(part, float) else str(part) for part in value)
    return str(value)
