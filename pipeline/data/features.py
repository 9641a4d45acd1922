"""The kinds of feature a schema can declare.

Each kind is a frozen dataclass that says how one column of raw data becomes one entry of a
`tf.train.Example`: its wire list (`float`, `int64` or `bytes`), static shape, clean-up, and what stands in
the record where the value is missing. Standard library only: Beam workers import this file.
"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, Literal

from pipeline.data.feature import Dtype, Feature


@dataclasses.dataclass(frozen=True, kw_only=True)
class Numeric(Feature):
    """One number. Out of [minimum, maximum], the row is rejected."""

    number: Literal["float32", "int64"] = "float32"
    minimum: float | None = None
    maximum: float | None = None
    kind: ClassVar[str] = "numeric"

    @property
    def dtype(self) -> Dtype:
        return self.number

    def _check(self) -> None:
        self._require_one_of("number", ("float32", "int64"))
        self._require_number_as_default()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Categorical(Feature):
    """One of many values.

    `vocabulary`: known strings, listed here or, if none are listed, learned from the train split (the
    `max_vocabulary` most frequent). `hashed`: any string, into `buckets`. `integer`: 0 … size-1.
    `unknown` says what a value outside a listed vocabulary or integer range does.
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
        if self.encoding == "hashed":
            self._require(self.buckets > 0, "buckets", self.buckets, "a positive number of buckets")
        if self.encoding == "integer":
            self._require(self.size > 0, "size", self.size, "a positive number of values")
            self._require_number_as_default()
        if self.unknown == "reject" and self.encoding == "vocabulary":
            self._require(bool(self.vocabulary), "vocabulary", "none", "the values that are allowed")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Label(Feature):
    """What the model predicts: an index into `classes`, or a number for regression."""

    task: Literal["binary", "multiclass", "regression"] = "binary"
    classes: tuple[str, ...] = ()
    kind: ClassVar[str] = "label"
    may_be_missing: ClassVar[bool] = False

    @property
    def dtype(self) -> Dtype:
        return "float32" if self.task == "regression" else "int64"

    def _check(self) -> None:
        self._require_one_of("task", ("binary", "multiclass", "regression"))
        n = len(self.classes)
        self._require(n == len(set(self.classes)), "classes", self.classes, "different names")
        if self.task == "binary":
            self._require(n == 2, "classes", self.classes, "two names, the positive class second")
        if self.task == "multiclass":
            self._require(n >= 2, "classes", self.classes, "two names or more")
        if self.task == "regression":
            self._require(n == 0, "classes", self.classes, "none for regression")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Image(Feature):
    """An encoded image, stored as its file's own bytes. A height or width of 0 means that sizes vary.

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
        self._require(size > 0, "vocabulary_size", size, "a positive number of token ids")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tensor(Feature):
    """Numbers of one fixed shape; in text formats a flat list separated by blanks, commas or semicolons."""

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


KINDS: Mapping[str, type[Feature]] = {
    kind.kind: kind for kind in (Numeric, Categorical, Label, Image, Text, Tokens, Tensor)
}
