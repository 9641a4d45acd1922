"""What a flag takes, in words: the same for --help and for errors."""

import re

from absl import flags

# What absl puts before the help of a flag with choices, and behind that of a flag that repeats.
_ABSL_ADDS = re.compile(r"^<[^>]*>: |;? ?repeat this option to specify a list of values$")
_PLACEHOLDER = re.compile(r"(?P<text>\S*[A-Z]{2}\S*|A,B,…): ")


def expected(flag: flags.Flag) -> str:
    """What a value of the flag must be, such as `a whole number, at least 1`."""
    parser = flag.parser
    if choices := getattr(parser, "enum_values", None):
        return f"one of {', '.join(choices)}"
    if flag.boolean or isinstance(parser, flags.BooleanParser):
        return "true or false"
    if isinstance(parser, flags.IntegerParser):
        return f"a whole number{_bounds(parser)}"
    if isinstance(parser, flags.FloatParser):
        return f"a number{_bounds(parser)}"
    return "a value"


def placeholder_and_help(flag: flags.Flag) -> tuple[str, str]:
    """What --help shows behind `=`, and the sentences on the flag.

    A flag's help may start with the placeholder in capitals: `FILE: where the summary goes.`
    """
    text = _ABSL_ADDS.sub("", " ".join((flag.help or "").split()))
    if given := _PLACEHOLDER.match(text):
        rest = text[given.end() :]
        return given["text"], rest[:1].upper() + rest[1:]
    return _placeholder(flag), text


def _placeholder(flag: flags.Flag) -> str:
    if choices := getattr(flag.parser, "enum_values", None):
        return "|".join(choices)
    if isinstance(flag.parser, flags.IntegerParser | flags.FloatParser):
        return "NUMBER"
    return "A,B,…" if isinstance(flag.parser, flags.ListParser) else "TEXT"


def _bounds(parser: flags.IntegerParser | flags.FloatParser) -> str:
    least, most = parser.lower_bound, parser.upper_bound
    if least is not None and most is not None:
        return f" from {least} to {most}"
    if least is not None:
        return f", at least {least}"
    return "" if most is None else f", at most {most}"
