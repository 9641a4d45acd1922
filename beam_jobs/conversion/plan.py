"""The plan that is made before any row is read: input splits, splits, and the shards of each split."""

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from beam_jobs.sources.source import Input, InputSplit, Source, numbered
from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import in_order
from pipeline.data.origins import files
from pipeline.data.schema.schema import SPLIT_NAME, Schema

DEFAULT_SPLITS = "train=0.8,validation=0.1,test=0.1"
_BUCKET_BYTES = 16 << 20  # 16 MiB of input are sorted and encoded in memory at once


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """Fractions of rows by split, where an input is not pinned to one, and the number of shards by split.

    `buckets`, by split, are the parts of a shard that are sorted one at a time. They change nothing about the
    output.
    """

    input_splits: tuple[InputSplit, ...]
    fractions: Mapping[str, Fraction]
    shards: Mapping[str, int]
    buckets: Mapping[str, int]
    layout: str
    schema_fingerprint: str
    cut: tuple[str, ...] = ()  # the splits between the schema's cut-offs; `fractions` is empty then
    origins: bytes = b""  # id of the list of raw files (`origins/files.py`); empty: no origins are kept

    @property
    def unpinned(self) -> tuple[str, ...]:
        """The splits of rows whose input is not pinned to one."""
        return self.cut or tuple(self.fractions)

    @property
    def pinned(self) -> tuple[str, ...]:
        """The splits that get rows only from inputs that are pinned to them."""
        return tuple(split for split in self.shards if split not in self.unpinned)

    @property
    def has_named_splits(self) -> bool:
        """Whether an input names the split of its rows."""
        return any(each.split for each in self.input_splits)

    @property
    def root(self) -> str:
        """The common directory of all inputs."""
        return self.input_splits[0].root

    @property
    def bytes(self) -> int:
        return sum(input_split.bytes for input_split in self.input_splits)

    def shard_keys(self) -> list[tuple[str, int]]:
        """Split and number of every shard. A shard is written even if it gets no row."""
        return [(split, number) for split, n in self.shards.items() for number in range(n)]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of what decides where a row is written. Paths and the order of files do not."""
        decided = {
            "layout": self.layout,
            "schema": self.schema_fingerprint,
            "fractions": {split: str(fraction) for split, fraction in self.fractions.items()},
            "shards": dict(self.shards),
        }
        return hashlib.sha256(json.dumps(decided, sort_keys=True).encode()).hexdigest()


def make_plan(
    inputs: Sequence[Input],
    source: Source,
    schema: Schema,
    *,
    fractions: Mapping[str, Fraction] | None = None,
    shard_bytes: int,
    layout: str = "rows",
    origins: bool = True,
) -> Plan:
    """Lists the inputs and sizes the splits: shards of about `shard_bytes` of input each.

    With `origins`, the dataset keeps where each row came from. Without `fractions`, rows are split by
    `DEFAULT_SPLITS`. Raises InputError if some are given and every input is pinned to a split.
    """
    input_splits = list(numbered(source.input_splits(inputs)))
    _check_disjoint(input_splits)
    cut = schema.split_by.splits if schema.split_by else ()
    if schema.split_by:
        _check_splits_of_schema(fractions, input_splits, cut)
    used = {} if cut else _used_fractions(fractions, input_splits)
    # The rows on each side of a cut-off are not counted yet.
    expected = dict.fromkeys(cut, Fraction(1, len(cut))) if cut else used
    sizes: dict[str, Fraction] = dict.fromkeys(expected, Fraction(0))
    for input_split in input_splits:
        parts = {input_split.split: Fraction(1)} if input_split.split else expected
        for split, fraction in parts.items():
            sizes[split] = sizes.get(split, Fraction(0)) + fraction * input_split.bytes
    shards = {split: max(1, math.ceil(sizes[split] / shard_bytes)) for split in in_order(sizes)}
    # Groups and cut-offs may put most rows, or all, into any one split.
    total = sum(input_split.bytes for input_split in input_splits)
    largest = dict.fromkeys(shards, total) if schema.split_by or schema.group else sizes
    return Plan(
        input_splits=tuple(input_splits),
        fractions=dict(used),
        shards=shards,
        buckets={split: max(1, math.ceil(largest[split] / n / _BUCKET_BYTES)) for split, n in shards.items()},
        layout=layout,
        schema_fingerprint=schema.fingerprint,
        cut=cut,
        origins=files.id_of(origin_names(input_splits)) if origins else b"",
    )


def origin_names(input_splits: Sequence[InputSplit]) -> Iterator[str]:
    """Yields the names of the raw files, in the order of their numbers."""
    return (name for input_split in input_splits for name in input_split.file_names)


def _check_splits_of_schema(
    fractions: Mapping[str, Fraction] | None, input_splits: Sequence[InputSplit], cut: Sequence[str]
) -> None:
    """Raises InputError where a flag contradicts the schema's `split_by`."""
    pinned = sorted({input_split.split for input_split in input_splits} - {""})
    if pinned:
        raise InputError(
            "--input",
            received=f"inputs that are pinned to {', '.join(pinned)}",
            expected="inputs without a split, because the schema's split_by decides it",
            action="Leave out SPLIT= in front of the path, or split_by in the schema.",
        )
    if cut and fractions:
        raise InputError(
            "--splits",
            received=f"fractions of {', '.join(fractions)}",
            expected=f"none, because the schema's split_by cuts the rows into {', '.join(cut)}",
            action="Leave out --splits, or 'from' in split_by.",
        )


def _used_fractions(
    fractions: Mapping[str, Fraction] | None, input_splits: Sequence[InputSplit]
) -> Mapping[str, Fraction]:
    pinned = sorted({input_split.split for input_split in input_splits})
    if "" in pinned:
        return fractions or parse_fractions(DEFAULT_SPLITS)
    if fractions:
        raise InputError(
            "--splits",
            received=f"fractions of {', '.join(fractions)} beside inputs that all name their split: "
            + ", ".join(pinned),
            expected="one or the other",
            action="Leave out --splits, or the split of an --input whose rows it should divide.",
        )
    return {}


def parse_fractions(text: str) -> dict[str, Fraction]:
    """Parses `train=0.8,test=0.2` exactly, in one order; raises InputError unless the sum is 1."""
    pairs = [part.partition("=") for part in text.split(",")]
    try:
        fractions = {split.strip(): Fraction(value.strip()) for split, _, value in pairs}
    except (ValueError, ZeroDivisionError):
        fractions = {}
    named = len(fractions) == len(pairs) and all(map(SPLIT_NAME.fullmatch, fractions))
    if not named or min(fractions.values()) <= 0 or sum(fractions.values()) != 1:
        raise InputError(
            "--splits",
            received=text,
            expected="different lower-case names with positive fractions that sum to 1",
            action=f"Write it like {DEFAULT_SPLITS}.",
        )
    return {split: fractions[split] for split in in_order(fractions)}


def check_split_names(inputs: Sequence[Input]) -> None:
    """Raises InputError if an input is pinned to a split whose name cannot be part of a file name."""
    for given in inputs:
        if given.split and not SPLIT_NAME.fullmatch(given.split):
            raise InputError(
                f"--input={given.split}={given.location}",
                received=f"split '{given.split}'",
                expected="lower-case letters, digits and '_', starting with a letter",
                action="Rename the split; if '=' is part of the path, put ./ in front of it.",
            )


def _check_disjoint(input_splits: Sequence[InputSplit]) -> None:
    """Raises InputError if two inputs name one file: its rows would be there twice, or in two splits."""
    seen: set[tuple[str, int]] = set()
    for part in ((path, input_split.start) for input_split in input_splits for path in input_split.paths):
        if part in seen:
            raise InputError(
                f"input {part[0]}",
                received="a file that two --input flags name",
                expected="each file once",
                action="Narrow the globs: its rows would be in the dataset twice.",
            )
        seen.add(part)
