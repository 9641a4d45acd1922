"""Declares what every feature of a schema has, whatever its type.

Standard library only: Beam workers import this file.
"""

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import ClassVar, Literal

from pipeline.base.errors import InputError

Wire = Literal["float", "int64", "bytes"]
Missing = Literal["reject", "default", "mark"]
Dtype = Literal["float32", "int64", "string"]
Statistics = Literal["all", "none"]

_WIRE_OF_DTYPE: Mapping[str, Wire] = {"float32": "float", "int64": "int64", "string": "bytes"}

_DECIMAL = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?")

_THOUSANDS = frozenset(",.'\u2019 \u00a0\u202f")  # marks that part thousands

# What a record holds for a missing value under `missing: mark`; none for int64: any number may be a value.
_MARKER: Mapping[str, float | str] = {"float32": math.nan, "string": ""}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Clean:
    """Value clean-up, applied in this order: strip, null markers, aliases, remove, decimal."""

    strip: str = " \t\r\n"  # characters removed from both ends
    null_markers: tuple[str, ...] = ("",)  # what means "no value"
    aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)  # spelling -> canonical value
    remove: tuple[str, ...] = ()  # texts removed wherever they stand, such as a currency
    decimal: str = "."  # what decimals begin with; it becomes a point

    @property
    def rewrites(self) -> bool:
        """Returns whether a number may be written with more than its digits and a point."""
        return bool(self.remove) or self.decimal != "."

    @property
    def misplaced(self) -> str:
        """A pattern of RE2 for numbers in which a mark that is removed parts no thousands, as in 2855,50;
        empty where no such mark is removed.
        """
        marks = map(re.escape, sorted({*self.remove} & _THOUSANDS))
        return "|".join(f"[0-9]{mark}(?:[0-9]{{1,2}}|[0-9]{{4,}})(?:[^0-9{mark}]|$)" for mark in marks)

    def keeps(self, value: str) -> bool:
        """Returns whether clean-up leaves `value` as it is: serving cleans again what is stored."""
        is_stripped = value.strip(self.strip) == value if self.strip else True
        return is_stripped and value not in self.null_markers and self.aliases.get(value, value) == value

    @property
    def sentinels(self) -> tuple[float, ...]:
        """The null markers that are numbers, such as -999: they hold for a number in any spelling."""
        return tuple(float(marker) for marker in self.null_markers if _DECIMAL.fullmatch(marker))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Feature:
    """The fields that every feature declares.

    `missing` says what a missing value does: it rejects the row (`reject`), is replaced by the `default`, or
    is marked in the record (`mark`: by the `marker`), so that preprocessing can tell the model. Validation
    refuses a dataset if more than `max_missing_fraction` of a split lacks a value. With `statistics: none`,
    only the records hold the values; statistics just count them. `group_length` is the number of rows whose
    values a record holds: 0 where it holds one row. A schema sets it by its `group`; no schema file has it.
    """

    name: str
    column: str = ""  # column of the raw data; empty: same as `name`
    description: str = ""
    missing: Missing = "reject"
    default: float | int | str | None = None
    max_missing_fraction: float | None = None
    statistics: Statistics = "all"
    clean: Clean = Clean()
    evidence: Mapping[str, object] = dataclasses.field(default_factory=dict, compare=False)
    group_length: int = 0

    kind: ClassVar[str]  # its name in a schema file
    may_be_missing: ClassVar[bool] = True  # whether `missing` may be anything but "reject"

    @property
    def source_column(self) -> str:
        """The column of the raw data that the feature is read from."""
        return self.column or self.name

    @property
    def dtype(self) -> Dtype:
        """Type of what the record holds."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        """Static shape of one example's value, as stored in the record."""
        return (self.group_length,) if self.group_length else ()

    @property
    def wire(self) -> Wire:
        """The list of a `tf.train.Feature` that holds the value."""
        return _WIRE_OF_DTYPE[self.dtype]

    @property
    def fill(self) -> float | int | str | None:
        """The value written where the raw value is missing; None where such a row is rejected."""
        if self.missing == "reject":
            return None
        return self.marker if self.missing == "mark" else self.default

    @property
    def marker(self) -> float | int | str | None:
        """The mark of a missing value: NaN for float32, the empty string for strings; None: the type has no
        value for it.
        """
        return _MARKER.get(self.dtype)

    @property
    def is_text_in_requests(self) -> bool:
        """Returns whether the `raw` signature takes the text of the raw data, which it cleans and reads."""
        return self.dtype == "string"

    def __post_init__(self) -> None:
        self._require(bool(self.name), "name", self.name, "a non-empty name")
        self._require_one_of("missing", ("reject", "default", "mark"))
        self._require_one_of("statistics", ("all", "none"))
        if self.missing != "reject":
            self._require(self.may_be_missing, "missing", self.missing, f"'reject' for a {self.kind}")
        if self.missing == "default":
            self._require(self.default is not None, "default", None, "a value, because missing is 'default'")
        if self.missing == "mark":
            expected = "'reject' or 'default': no value of an int64 can stand for a missing one"
            self._require(self.marker is not None, "missing", "mark", expected)
        limit = self.max_missing_fraction
        in_range = limit is None or 0 <= limit <= 1
        self._require(in_range, "max_missing_fraction", limit, "a fraction, 0 … 1")
        self._check()
        self._check_clean()

    def _check_clean(self) -> None:
        clean, as_is = self.clean, "that clean-up leaves as they are"
        self._require(all(clean.remove), "clean: remove", clean.remove, "texts that are not empty")
        self._require(len(clean.decimal) == 1, "clean: decimal", clean.decimal, "one character")
        changed = sorted({value for value in clean.aliases.values() if not clean.keeps(value)})
        self._require(not changed, "clean: aliases", changed[:3], f"values {as_is}, and no null markers")
        if self.dtype == "string":
            rewritten = (*clean.remove, clean.decimal)
            expected = "none, as the values are no numbers"
            self._require(not clean.rewrites, "clean: remove, decimal", rewritten, expected)
            fill = self.fill
            kept = fill is None or fill in clean.null_markers or clean.keeps(str(fill))
            field = "default" if self.missing == "default" else "clean: aliases"
            self._require(kept, field, fill, f"for a missing value, one of the values {as_is}")

    def _check(self) -> None:
        """Checks what only this type declares."""

    def _require(self, ok: bool, field: str, received: object, expected: str) -> None:
        if not ok:
            raise InputError(
                f"schema feature '{self.name}', field '{field}'",
                received=repr(received),
                expected=expected,
                action="Correct this field in the schema file.",
            )

    def _require_one_of(self, field: str, allowed: tuple) -> None:
        value = getattr(self, field)
        self._require(value in allowed, field, value, f"one of {', '.join(map(str, allowed))}")

    def _require_number_as_default(self) -> None:
        default = self.default
        is_number = isinstance(default, int | float) and not isinstance(default, bool)
        self._require(default is None or is_number, "default", default, "a number")
        if self.dtype == "int64":
            whole = default is None or (math.isfinite(default) and default == int(default))
            self._require(whole, "default", default, "a whole number")
