"""The usual splits of a dataset, and the order in which splits are listed. Standard library only."""

from collections.abc import Iterable

TRAIN, VALIDATION, TEST = _USUAL = ("train", "validation", "test")


def in_order(splits: Iterable[str]) -> list[str]:
    """The usual splits in the order of their use, then any others by name."""
    return sorted(splits, key=lambda split: (_USUAL.index(split) if split in _USUAL else len(_USUAL), split))
