"""What the columns of a table are called where its header does not tell them apart."""

import collections
from collections.abc import Iterable, Iterator, Sequence

from pipeline.data.errors import InputError


def column_names(header: Sequence[str], path: str) -> tuple[str, ...]:
    """`header`, where names that are empty or not alone get their 1-based position behind a `#`.

    `id,price,,price` → `id`, `price#2`, `#3`, `price#4`. Raises InputError if another column has such a name.
    """
    counts = collections.Counter(header)
    names = tuple(
        name if name and counts[name] == 1 else f"{name}#{position}"
        for position, name in enumerate(header, 1)
    )
    if len(set(names)) < len(names):
        repeated = [name for name, count in collections.Counter(names).items() if count > 1]
        raise InputError(
            f"input {path}, header",
            received=f"several columns {', '.join(map(repr, repeated))}",
            expected="names that can be told apart",
            action="Rename columns in the file.",
        )
    return names


def remarks(names: Iterable[str]) -> Iterator[str]:
    """What to tell the user of names that `column_names` made."""
    alike: dict[str, list[str]] = {}
    for position, name in enumerate(names, 1):
        stem, _, number = name.rpartition("#")
        if number == str(position):
            alike.setdefault(stem, []).append(name)
    for stem, made in alike.items():
        which = f"Several columns are called '{stem}'" if stem else "Columns have no name"
        yield f"{which}: they are read by position, as {', '.join(map(repr, made))}."
