"""The kinds of feature a schema can declare.

Each kind is a frozen dataclass that says how one column of raw data becomes one entry of a
`tf.train.Example`: its wire list (`float`, `int64` or `bytes`), static shape, clean-up, and what stands in
the record where the value is missing. Standard library and numpy only: Beam workers import this file.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import ClassVar, Literal

from pipeline.data.errors import InputError

Wire = Literal["float", "int64", "bytes"]
Missing = Literal["reject", "default", "mark"]
Dtype = Literal["float32", "int64", "string"]

WIRE_OF_DTYPE: Mapping[str, Wire] = {"float32": "float", "int64": "int64", "string": "bytes"}

# What stands in a record for a missing value under `missing: mark`. There is none for int64.
MARKER: Mapping[str, float | str] = {"float32": math.nan, "string": ""}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Clean:
    """Value clean-up, applied in this order: strip, then null markers, then aliases."""

    strip: str = " \t\r\n"  # characters removed from both ends
    null_markers: tuple[str, ...] = ("",)  # what means "no value"
    aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)  # spelling -> canonical value


@dataclasses.dataclass(frozen=True, kw_only=True)
class Feature:
    """What every feature declares.

    `missing` says what a missing value does: `reject` the row, write the `default`, or `mark` it in the
    record (NaN for float32, the empty string for strings) so that preprocessing can tell the model. Where
    more than `max_missing_fraction` of a split lacks a value, validation refuses the whole dataset.
    """

    name: str
    column: str = ""  # column of the raw data; empty: same as `name`
    description: str = ""
    missing: Missing = "reject"
    default: float | int | str | None = None
    max_missing_fraction: float | None = None
    clean: Clean = Clean()
    evidence: Mapping[str, object] = dataclasses.field(default_factory=dict, compare=False)

    kind: ClassVar[str]
    may_be_missing: ClassVar[bool] = True

    @property
    def source_column(self) -> str:
        return self.column or self.name

    @property
    def dtype(self) -> Dtype:
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        """Static shape of one example's value, as stored in the record."""
        return ()

    @property
    def wire(self) -> Wire:
        return WIRE_OF_DTYPE[self.dtype]

    @property
    def fill(self) -> float | int | str | None:
        """The value written where the raw value is missing; None where such a row is rejected."""
        if self.missing == "reject":
            return None
        return MARKER[self.dtype] if self.missing == "mark" else self.default

    def __post_init__(self) -> None:
        _require(bool(self.name), self, "name", self.name, "a non-empty name")
        _require_one_of(self, "missing", ("reject", "default", "mark"))
        if self.missing != "reject":
            _require(self.may_be_missing, self, "missing", self.missing, f"'reject' for a {self.kind}")
        if self.missing == "default":
            _require(self.default is not None, self, "default", None, "a value, because missing is 'default'")
        if self.missing == "mark":
            expected = "'reject' or 'default': an int64 has no value left over to mark with"
            _require(self.dtype in MARKER, self, "missing", "mark", expected)
        limit = self.max_missing_fraction
        in_range = limit is None or 0 <= limit <= 1
        _require(in_range, self, "max_missing_fraction", limit, "a fraction, 0 … 1")
        self._check()

    def _check(self) -> None:
        """Checks what only this kind declares."""


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
        _require_one_of(self, "number", ("float32", "int64"))
        _check_default_is_number(self)


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
        _require_one_of(self, "encoding", ("vocabulary", "hashed", "integer"))
        _require_one_of(self, "unknown", ("reject", "oov"))
        if self.encoding == "hashed":
            _require(self.buckets > 0, self, "buckets", self.buckets, "a positive number of buckets")
        if self.encoding == "integer":
            _require(self.size > 0, self, "size", self.size, "a positive number of values")
            _check_default_is_number(self)
        if self.unknown == "reject" and self.encoding == "vocabulary":
            _require(bool(self.vocabulary), self, "vocabulary", "none", "the values that are allowed")


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
        _require_one_of(self, "task", ("binary", "multiclass", "regression"))
        n = len(self.classes)
        _require(n == len(set(self.classes)), self, "classes", self.classes, "different names")
        if self.task == "binary":
            _require(n == 2, self, "classes", self.classes, "two names, the positive class second")
        if self.task == "multiclass":
            _require(n >= 2, self, "classes", self.classes, "two names or more")
        if self.task == "regression":
            _require(n == 0, self, "classes", self.classes, "none for regression")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Image(Feature):
    """An encoded image, stored as its file's own bytes. A height or width of 0 means that sizes vary."""

    height: int = 0
    width: int = 0
    channels: int = 3
    encoding: Literal["png", "jpeg", "any"] = "any"
    kind: ClassVar[str] = "image"
    may_be_missing: ClassVar[bool] = False

    @property
    def dtype(self) -> Dtype:
        return "string"

    def _check(self) -> None:
        _require_one_of(self, "encoding", ("png", "jpeg", "any"))
        _require_one_of(self, "channels", (1, 3, 4))
        fixed = (self.height > 0) == (self.width > 0) and min(self.height, self.width) >= 0
        _require(fixed, self, "height, width", (self.height, self.width), "both positive, or both 0")


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
        _require(self.length > 0, self, "length", self.length, "a positive number of words")
        _require(self.buckets > 0, self, "buckets", self.buckets, "a positive number of buckets")


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
        _require(self.length > 0, self, "length", self.length, "a positive number of tokens")
        size = self.vocabulary_size
        _require(size > 0, self, "vocabulary_size", size, "a positive number of token ids")


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
        _require_one_of(self, "number", ("float32", "int64"))
        ok = bool(self.dimensions) and min(self.dimensions) > 0
        _require(ok, self, "dimensions", self.dimensions, "one or more positive sizes")


KINDS: Mapping[str, type[Feature]] = {
    kind.kind: kind for kind in (Numeric, Categorical, Label, Image, Text, Tokens, Tensor)
}


def _require(ok: bool, feature: Feature, field: str, received: object, expected: str) -> None:
    if not ok:
        raise InputError(
            f"schema feature '{feature.name}', field '{field}'",
            received=repr(received),
            expected=expected,
            action="Correct this field in the schema file.",
        )


def _require_one_of(feature: Feature, field: str, allowed: tuple) -> None:
    value = getattr(feature, field)
    _require(value in allowed, feature, field, value, f"one of {', '.join(map(str, allowed))}")


def _check_default_is_number(feature: Feature) -> None:
    default = feature.default
    is_number = isinstance(default, int | float) and not isinstance(default, bool)
    _require(default is None or is_number, feature, "default", default, "a number")
    if feature.dtype == "int64":
        _require(default is None or default == int(default), feature, "default", default, "a whole number")
