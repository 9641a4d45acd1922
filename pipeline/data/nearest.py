"""The name that was probably meant, for errors about names that do not exist."""

import difflib
import re
from collections.abc import Iterable

_CLOSE = 0.6  # `cvs` is 0.67 like `csv`, `age` 0.57 like `name`
_WORD = 0.75  # a word in common, and more the longer it is: `batch_size` to `global_batch`, not `image_size`
_INITIALS = 0.95  # `lr`, `learning_rate`


def nearest(given: str, names: Iterable[str]) -> str | None:
    """The name most like `given`, or None where none is close; of equals the shortest, then the first."""
    scored = [(-_likeness(given.lower(), name.lower()), len(name), name) for name in names]
    best = min(scored, default=None)
    return best[2] if best and -best[0] >= _CLOSE else None


def did_you_mean(given: str, names: Iterable[str], *, otherwise: str) -> str:
    """`Did you mean 'validation'?`, or `otherwise` where no name is close."""
    found = nearest(given, names)
    return f"Did you mean '{found}'?" if found else otherwise


def _likeness(given: str, name: str) -> float:
    """1 for equal names; of a dotted name its last part counts as much as the whole."""
    last = name.rpartition(".")[2]
    likeness = max(difflib.SequenceMatcher(None, given, one).ratio() for one in (name, last))
    words = _words(last)
    if len(words) > 1 and given == "".join(word[0] for word in words):
        likeness = max(likeness, _INITIALS)
    if len(given) > 2 and last.startswith(given):
        likeness = max(likeness, _WORD)
    common = max((len(word) for word in _words(given) if word in words), default=0)
    if common > 1:
        likeness = max(likeness, _WORD + (1 - _WORD) * common / len(given))
    return likeness


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9]+", name) if len(word) > 1]
