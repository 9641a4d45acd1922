"""Flags of a test's command: those that it usually has, and those that a case gives."""

from collections.abc import Sequence


def with_defaults(defaults: Sequence[object], given: Sequence[object]) -> list[object]:
    """Returns the flags given behind those of `defaults` that they do not set: a flag stands once."""
    names = {_name(flag) for flag in given}
    return [*(flag for flag in defaults if _name(flag) not in names), *given]


def _name(flag: object) -> str:
    return str(flag).partition("=")[0]
