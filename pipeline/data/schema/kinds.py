"""The kinds of feature a schema can declare.

Each kind is a frozen dataclass. It declares how one column of raw data is stored: dtype, static shape,
clean-up, and the value that stands in for a missing one. Each room's `KindTable` says what the room does with
a kind. Standard library only: Beam workers import this file.
"""

import collections
import dataclasses
from collections.abc import Mapping
from typing import ClassVar, Literal

from pipeline.data.schema.datetime_kind import Datetime
from pipeline.data.schema.feature import Dtype, Feature
from pipeline.data.schema.label_tasks import LABEL_TASKS
from pipeline.data.schema.numeric_kind import Numeric

MOST_IDS = (1 << 31) - 1  # ids are int32, and one of them stands for what is unknown


@dataclasses.dataclass(frozen=True, kw_only=True)
class Categorical(Feature):
    """One of many values, by one of three encodings.

    `vocabulary`: known strings. If none are listed, the `max_vocabulary` most frequent of the train split are
    learned. `hashed`: any string, hashed into `buckets`. `integer`: 0 … size-1. `unknown` says what a value
    outside of a listed vocabulary or integer range does: it rejects the row, or counts as "other" (`oov`).
    """

    encoding: Literal["vocabulary", "hashed", "integer"] = "vocabulary"
    vocabulary: tuple[str, ...] = ()
    max_vocabulary: int = 10_000
    unknown: Literal["reject", "oov"] = "oov"
    buckets: int = 0
    size: int = 0
    kind: ClassVar[str] = "categorical"

    @property
    def dtype(self) -> Dtype:
        return "int64" if self.encoding == "integer" else "string"

    def _check(self) -> None:
        self._require_one_of("encoding", ("vocabulary", "hashed", "integer"))
        self._require_one_of("unknown", ("reject", "oov"))
        repeated = [value for value, count in collections.Counter(self.vocabulary).items() if count > 1][:3]
        self._require(not repeated, "vocabulary", repeated, "every value once")
        if self.encoding == "hashed":
            self._require(self.buckets > 0, "buckets", self.buckets, "a positive number of buckets")
            # Blocks would store an index into the list, rows the string: two ids for one value.
            self._require(
                not self.vocabulary, "vocabulary", self.vocabulary, "none beside hashed, which needs no list"
            )
        if self.encoding == "integer":
            self._require(0 < self.size < MOST_IDS, "size", self.size, f"1 to {MOST_IDS - 1:,} values")
            self._require_number_as_default()
        if self.unknown == "reject" and self.encoding == "vocabulary":
            self._require(bool(self.vocabulary), "vocabulary", "none", "the values that are allowed")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Label(Feature):
    """What the model predicts: an index into `classes`, or a number for regression."""

    task: str = "binary"  # one of LABEL_TASKS
    classes: tuple[str, ...] = ()
    kind: ClassVar[str] = "label"
    may_be_missing: ClassVar[bool] = False

    @property
    def dtype(self) -> Dtype:
        return LABEL_TASKS[self.task].dtype

    @property
    def positive_class(self) -> str | None:
        """The class whose probability ranks the examples; None where the task has no such class."""
        return self.classes[1] if LABEL_TASKS[self.task].has_positive_class else None

    def _check(self) -> None:
        table = f"one of {', '.join(LABEL_TASKS)} (LABEL_TASKS in pipeline/data/schema/label_tasks.py)"
        self._require(self.task in LABEL_TASKS, "task", self.task, table)
        rules, n = LABEL_TASKS[self.task], len(self.classes)
        self._require(n == len(set(self.classes)), "classes", self.classes, "different names")
        self._require(n in rules.classes, "classes", self.classes, rules.expected)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Image(Feature):
    """An encoded image, stored as its file's own bytes. A height and width of 0 mean that sizes vary.

    An image of more than `max_pixels` is refused before it is decoded: a small file can declare gigabytes.
    """

    height: int = 0
    width: int = 0
    channels: int = 3
    encoding: Literal["png", "jpeg", "any"] = "any"
    max_pixels: int = 89_478_485  # 256 MiB of RGB, where Pillow begins to warn
    kind: ClassVar[str] = "image"
    may_be_missing: ClassVar[bool] = False

    @property
    def dtype(self) -> Dtype:
        return "string"

    def _check(self) -> None:
        self._require_one_of("encoding", ("png", "jpeg", "any"))
        self._require_one_of("channels", (1, 3, 4))
        self._require(self.max_pixels > 0, "max_pixels", self.max_pixels, "a positive number of pixels")
        fixed = (self.height > 0) == (self.width > 0) and min(self.height, self.width) >= 0
        self._require(fixed, "height, width", (self.height, self.width), "both positive, or both 0")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Text(Feature):
    """UTF-8 text. Preprocessing hashes its first `length` words into `buckets`."""

    length: int = 64
    buckets: int = 1 << 14
    kind: ClassVar[str] = "text"

    @property
    def dtype(self) -> Dtype:
        return "string"

    def _check(self) -> None:
        self._require(self.length > 0, "length", self.length, "a positive number of words")
        self._require(self.buckets > 0, "buckets", self.buckets, "a positive number of buckets")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tokens(Feature):
    """A fixed number of token ids, each in 0 … vocabulary_size-1."""

    length: int = 0
    vocabulary_size: int = 0
    kind: ClassVar[str] = "tokens"
    may_be_missing: ClassVar[bool] = False

    @property
    def dtype(self) -> Dtype:
        return "int64"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    def _check(self) -> None:
        self._require(self.length > 0, "length", self.length, "a positive number of tokens")
        size = self.vocabulary_size
        self._require(0 < size < MOST_IDS, "vocabulary_size", size, f"1 to {MOST_IDS - 1:,} token ids")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tensor(Feature):
    """Numbers of one fixed shape. In text they are a flat list, parted by blanks, commas or semicolons."""

    dimensions: tuple[int, ...] = ()
    number: Literal["float32", "int64"] = "float32"
    kind: ClassVar[str] = "tensor"
    may_be_missing: ClassVar[bool] = False

    @property
    def dtype(self) -> Dtype:
        return self.number

    @property
    def shape(self) -> tuple[int, ...]:
        return self.dimensions

    def _check(self) -> None:
        self._require_one_of("number", ("float32", "int64"))
        ok = bool(self.dimensions) and min(self.dimensions) > 0
        self._require(ok, "dimensions", self.dimensions, "one or more positive sizes")


# By the name that a schema file gives them.
KINDS: Mapping[str, type[Feature]] = {
    kind.kind: kind for kind in (Numeric, Categorical, Label, Image, Text, Tokens, Tensor, Datetime)
}
