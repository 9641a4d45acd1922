"""Fingerprints of what commands have written, and where those of two trees differ.

A file is its SHA-256. Where a file holds what differs by nature (a time, a path, the version of Python), the
rest of it counts; `WITHOUT` and `NOT_COMPARED` name everything that is left out, and why.
"""

import dataclasses
import hashlib
import json
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from pipeline.training.state import workdir

# By name of a JSON file, or of a file with a JSON document a line: the fields that differ by nature.
WITHOUT: Mapping[str, tuple[str, ...]] = {
    "conversion.json": ("command", "started", "seconds", "versions", "digest"),
    "run.json": ("command", "config_file", "dataset", "started", "seconds", "versions", "machine", "digest"),
    "history.jsonl": workdir.MEASURED,
    "session.json": ("window", "epoch"),  # of a checkpoint: they hold sums of time
}
# How paths begin, and why these files are not compared.
NOT_COMPARED: Mapping[str, str] = {
    "report.html": "shows times and paths",
    "ledger.jsonl": "holds times",
    "summaries/": "every event holds its time",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compared:
    """One line of the table; a side is empty where it lacks the thing."""

    what: str
    before: str
    after: str

    @property
    def same(self) -> bool:
        return self.before == self.after


def compare(before: Mapping[str, str], after: Mapping[str, str]) -> list[Compared]:
    """A line for everything that either side has."""
    names = dict.fromkeys([*before, *after])
    return [Compared(what=name, before=before.get(name, ""), after=after.get(name, "")) for name in names]


def of_directory(directory: pathlib.Path, *, name: str) -> dict[str, str]:
    """Fingerprints of all files of a dataset or a run, but NOT_COMPARED, by what they are of."""
    found = {}
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        relative = path.relative_to(directory)
        if not str(relative).startswith(tuple(NOT_COMPARED)):
            found |= {f"{name}/{relative}{part}": print_ for part, print_ in _of_file(path)}
    assert found, f"{directory}: no file to compare"
    return found


def versions(directory: pathlib.Path, *, name: str) -> dict[str, str]:
    """The version numbers of formats that a dataset or a run states."""
    stated = {"manifest.json": "format", "run.json": "order"}
    return {
        f"{name}/{file}: {field}": str(json.loads((directory / file).read_text())[field])
        for file, field in stated.items()
        if (directory / file).exists()
    }


def ledger(workdir: pathlib.Path) -> list[int]:
    """The number of the example at each position, of a run of order_config.py."""
    lines = (workdir / "history.jsonl").read_text().splitlines()
    assert lines, f"{workdir}: no position to compare"
    losses = [json.loads(line)["loss"] for line in lines]
    numbers = [math.isqrt(round(loss)) for loss in losses]
    assert [float(number**2) for number in numbers] == losses, f"{workdir}: a loss is no square"
    return numbers


def of_ledger(numbers: Sequence[int]) -> str:
    return hashlib.sha256(json.dumps(numbers).encode()).hexdigest()


def first_difference(before: Sequence[int], after: Sequence[int]) -> str:
    """Where two ledgers part, in words; empty where they do not."""
    if len(before) != len(after):
        return f"{len(before):,} positions before, {len(after):,} after"
    pairs = enumerate(zip(before, after, strict=True))
    return next(
        (f"position {i:,}: example {one} before, {other} after" for i, (one, other) in pairs if one != other),
        "",
    )


def _of_file(path: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Pairs of (what is added to the file's name, fingerprint)."""
    if path.name in WITHOUT:
        yield f" without {', '.join(WITHOUT[path.name])}", _sha256(_without(path).encode())
    elif path.parent.parent.name == "checkpoints" and path.name == "manifest.json":
        return  # names when it was saved, and digests of the other files
    else:
        yield "", _sha256(path.read_bytes())


def _without(path: pathlib.Path) -> str:
    """The JSON of the file, keys sorted, without the fields that differ by nature."""
    text = path.read_text()
    documents = map(json.loads, text.splitlines() if path.suffix == ".jsonl" else [text])
    left_out = WITHOUT[path.name]
    kept = [{key: value for key, value in one.items() if key not in left_out} for one in documents]
    return json.dumps(kept, sort_keys=True)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
