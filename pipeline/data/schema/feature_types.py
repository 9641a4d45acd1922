"""The types of feature a schema can declare.

Each feature type is a frozen dataclass. It declares how one column of raw data is stored: dtype, static
shape, clean-up, and the value that stands in for a missing one. Each room's `FeatureTypeTable` says what the
room does with a feature type. Standard library only: Beam workers import this file.
"""

import collections
import dataclasses
import math
import zoneinfo
from collections.abc import Mapping
from typing import ClassVar, Generic, Literal, TypeVar

from pipeline.data.schema import times
from pipeline.data.schema.feature import Dtype, Feature
from pipeline.data.schema.times import FORMATS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Datetime(Feature):
    """A date, written as `format` says, possibly with a time of day and an offset from UTC.

    It is stored as int64 microseconds since 1970-01-01 00:00 UTC.

    A time without an offset is local time in `zone`, an IANA name. A model gets hour, weekday and month in
    that zone. A missing time is marked with the smallest int64; a `default` is in microseconds.

    `%b` is the English name of a month, in full or its first letters. `%y` is a year of two digits, one of
    the hundred years from `first_year` on; it also reads a year of four digits.
    """

    format: str = "%Y-%m-%d"
    zone: str = "UTC"
    first_year: int = times.FIRST_YEAR
    kind: ClassVar[str] = "datetime"

    @property
    def dtype(self) -> Dtype:
        return "int64"

    @property
    def marker(self) -> int:
        return times.NOT_A_TIME

    @property
    def is_text_in_requests(self) -> bool:
        return True

    def _check(self) -> None:
        self._require_one_of("format", FORMATS)
        self._require(_is_zone(self.zone), "zone", self.zone, "an IANA time zone such as Europe/Zurich")
        within, last = 1 <= self.first_year <= times.LAST_FIRST_YEAR, times.LAST_FIRST_YEAR
        self._require(within, "first_year", self.first_year, f"a year from 1 to {last}")
        self._require_number_as_default()
        default = self.default
        inside = default is None or times.FIRST <= default <= times.LAST
        self._require(inside, "default", default, "microseconds since 1970, in the years 1 to 9999")


def _is_zone(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Numeric(Feature):
    """One number. A number outside of [minimum, maximum] rejects its row.

    A record holds the number less the `offset`: float32 keeps 7 digits, which is too few where all numbers
    begin like -73.98713. Raw numbers (`minimum`, `maximum`, `default`, cells, the text of requests) do not
    have the offset subtracted.
    """

    number: Literal["float32", "int64"] = "float32"
    minimum: float | None = None
    maximum: float | None = None
    offset: float = 0.0
    kind: ClassVar[str] = "numeric"

    @property
    def dtype(self) -> Dtype:
        return self.number

    @property
    def fill(self) -> float | int | str | None:
        fill = super().fill
        return fill - self.offset if self.missing == "default" and self.offset else fill

    @property
    def is_text_in_requests(self) -> bool:
        # A request with float32 would lose the digits that the offset keeps.
        return self.clean.rewrites or self.offset != 0

    @property
    def stored_range(self) -> tuple[float | None, float | None]:
        """The least and the greatest number that a record may hold; None: any."""
        low, high = (None if bound is None else bound - self.offset for bound in (self.minimum, self.maximum))
        return low, high

    def _check(self) -> None:
        self._require_one_of("number", ("float32", "int64"))
        self._require_number_as_default()
        possible = math.isfinite(self.offset) and (self.number == "float32" or not self.offset)
        self._require(possible, "offset", self.offset, "a finite number, and none of an int64")


MOST_IDS = (1 << 31) - 1  # ids are int32, and one of them stands for unknown values
_LONGEST_RUN = 16  # characters: a longer one hardly occurs twice


@dataclasses.dataclass(frozen=True, kw_only=True)
class Categorical(Feature):
    """One of many values, by one of three encodings.

    `vocabulary`: known strings. If none are listed, the `max_vocabulary` most frequent strings of the train
    split are learned. `hashed`: any string, hashed into `buckets`. `integer`: 0 … size-1. `unknown` says what
    a value outside of a listed vocabulary or integer range does: it rejects the row, or counts as "other"
    (`oov`).
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
            # Blocks would store an index into the list, and rows the string, so one value would have two ids.
            self._require(
                not self.vocabulary, "vocabulary", self.vocabulary, "none beside hashed, which needs no list"
            )
        if self.encoding == "integer":
            self._require(0 < self.size < MOST_IDS, "size", self.size, f"1 to {MOST_IDS - 1:,} values")
            self._require_number_as_default()
        if self.unknown == "reject" and self.encoding == "vocabulary":
            self._require(bool(self.vocabulary), "vocabulary", "none", "the values that are allowed")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Categories(Categorical):
    """A list of categories, such as the genres of a film: the first `length` of a row, in their order.

    The raw value is a list, or text in which the `delimiter` stands between the values. Values that are
    missing in a list are left out; a list of none is a value, too. A record always holds `length` strings:
    empty ones fill it up.
    """

    encoding: Literal["vocabulary", "hashed"] = "vocabulary"
    length: int = 0
    delimiter: str = ""
    kind: ClassVar[str] = "categories"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    def _check(self) -> None:
        super()._check()
        self._require_one_of("encoding", ("vocabulary", "hashed"))
        self._require_one_of("missing", ("reject", "mark"))
        self._require(self.length > 0, "length", self.length, "the largest number of values, from 1 on")
        self._require("" not in self.vocabulary, "vocabulary", "''", "values that are not empty")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Label(Feature):
    """The model's target: an index into `classes`; 0 or 1 for each of them (multilabel); or a number.

    The raw value of a multilabel is a list of names, or text in which the `delimiter` stands between them. An
    empty list is not a missing value: it means that the row is of none of the classes.
    """

    task: str = "binary"  # one of LABEL_TASKS; for retrieval the classes are the items
    classes: tuple[str, ...] = ()
    delimiter: str = ""
    kind: ClassVar[str] = "label"
    may_be_missing: ClassVar[bool] = False

    @property
    def dtype(self) -> Dtype:
        return LABEL_TASKS[self.task].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.classes),) if LABEL_TASKS[self.task].is_multi_hot else super().shape

    @property
    def answer_shape(self) -> tuple[int, ...]:
        """Static shape of what a model predicts of one example."""
        return (len(self.classes),) if self.classes else self.shape

    @property
    def is_retrieval(self) -> bool:
        """Whether the classes are items, of which a model returns the best ones."""
        return self.task == RETRIEVAL

    @property
    def is_ranking(self) -> bool:
        """Whether the label says how relevant a row is, beside the other rows of its group."""
        return self.task == RANKING

    @property
    def parts(self) -> tuple[str, ...]:
        """The features that hold it: itself, or each of several numeric labels."""
        return (self.name,)

    @property
    def positive_class(self) -> str | None:
        """The class whose probability ranks the examples; None where the task has no such class."""
        return self.classes[1] if LABEL_TASKS[self.task].has_positive_class else None

    def _check(self) -> None:
        table = f"one of {', '.join(declared_tasks())} (LABEL_TASKS in pipeline/data/schema/feature_types.py)"
        allowed = TASK_OF_SEVERAL.values() if len(self.parts) > 1 else declared_tasks()
        self._require(self.task in allowed, "task", self.task, table)
        rules, n = LABEL_TASKS[self.task], len(self.classes)
        self._require(n == len(set(self.classes)), "classes", self.classes, "different names")
        self._require(n in rules.classes, "classes", self.classes, rules.expected)
        of_lists = not self.delimiter or rules.is_multi_hot
        self._require(of_lists, "delimiter", self.delimiter, "none where the label is a single value")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelGroup(Label):
    """Several labels as the one that a model predicts: a number for each of the `parts`.

    Labels of regression become multitarget. Labels of two classes become multilabel: each part is a class,
    and 1 says that a row has it. `Schema.label` makes the group of the labels that a schema declares; no
    schema file has it.
    """

    parts: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.parts),)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenLabel(Label):
    """Tokens as the label of a model that predicts each of them from those before it in its document.

    `Schema.label` makes it of the tokens of a schema without a label; no schema file has it. `parts` are the
    feature of the tokens and, where there is one, that of the numbers of their documents.
    """

    task: str = "next_token"
    parts: tuple[str, ...] = ()
    length: int = 0
    vocabulary_size: int = 0
    tokenizer: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    @property
    def answer_shape(self) -> tuple[int, ...]:
        return (self.length, 2)

    def _check(self) -> None:
        """What it is made of was checked."""


RETRIEVAL = "retrieval"  # the task of a label whose classes are items to choose from
RANKING = "ranking"  # the task of a label that says how relevant a row is among those of its group
MOST_RELEVANT = 30  # a relevance r gains 2^r - 1, which is at most an int32, as in LightGBM
PADDING = -1  # the relevance of what fills up a group in a record

# The task of several labels, by that of each.
TASK_OF_SEVERAL: Mapping[str, str] = {"regression": "multitarget", "binary": "multilabel"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Image(Feature):
    """An encoded image: a JPEG or PNG. A height and width of 0 mean that sizes vary.

    `encoding` is the format of the raw files; a record has their own bytes, or a PNG of the pixels. An image
    of more than `max_pixels` is refused before it is decoded: a small file can declare gigabytes.
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
    """UTF-8 text. Preprocessing hashes the first `length` words into `buckets`.

    `words` says what a word is: `as_written` between blanks, or a run of letters and digits in `lower_case`.
    With `pairs`, pairs of these words are hashed too; up to `gap` other words may stand between the two.
    `characters` are the shortest and the longest run of characters that is hashed too, into as many buckets
    of their own; (): none.
    """

    length: int = 64
    buckets: int = 1 << 14
    words: Literal["as_written", "lower_case"] = "as_written"
    pairs: bool = False
    gap: int = 0
    characters: tuple[int, ...] = ()
    kind: ClassVar[str] = "text"

    @property
    def dtype(self) -> Dtype:
        return "string"

    def _check(self) -> None:
        self._require_one_of("words", ("as_written", "lower_case"))
        self._require(self.gap >= 0, "gap", self.gap, "0 or more words")
        self._require(self.pairs or not self.gap, "gap", self.gap, 'none without "pairs"')
        least = 2 + self.gap if self.pairs else 1
        self._require(self.length >= least, "length", self.length, f"{least} words at least")
        most = (MOST_IDS - 1) // 2 if self.characters else MOST_IDS - 1
        self._require(0 < self.buckets <= most, "buckets", self.buckets, f"1 to {most:,} buckets")
        is_range = len(self.characters) == 2 and 1 <= self.characters[0] <= self.characters[1] <= _LONGEST_RUN
        expected = f"none, or the shortest and the longest run, 1 to {_LONGEST_RUN} characters"
        self._require(is_range or not self.characters, "characters", self.characters, expected)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tokens(Feature):
    """A fixed number of token ids, each in 0 … vocabulary_size-1.

    `tokenizer` names what made them of text: `bytes`, or a file, whose SHA-256 is `tokenizer_digest`.
    """

    length: int = 0
    vocabulary_size: int = 0
    tokenizer: str = ""
    tokenizer_digest: str = ""
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
    """Numbers of one fixed shape. In text they are a flat list, separated by blanks, commas or semicolons."""

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


# The types by their names in a schema file.
FEATURE_TYPES: Mapping[str, type[Feature]] = {
    kind.kind: kind
    for kind in (Numeric, Categorical, Categories, Label, Image, Text, Tokens, Tensor, Datetime)
}


# --- The rules of each task for its label; pipeline/training/tasks has the rules for a model.


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelTask:
    """The rules for a label of one task.

    `dtype`: int64 class indices, or float32 values. `classes`: the numbers of classes that are allowed.
    `expected` names them in errors. `output` is the name of predictions in an export. With
    `has_positive_class`, the second class is the positive one. With `is_multi_hot`, a label is 0 or 1 for
    each class.
    """

    dtype: Dtype
    classes: range
    expected: str
    output: str
    has_positive_class: bool = False
    is_multi_hot: bool = False


_MOST_CLASSES = 1 << 31  # class indices leave the host as int32
_MOST_ITEMS = 1 << 24  # float32 holds the rank of an item

LABEL_TASKS: Mapping[str, LabelTask] = {
    "binary": LabelTask(
        dtype="int64",
        classes=range(2, 3),
        expected="two names, the positive class second",
        output="probabilities",
        has_positive_class=True,
    ),
    "multiclass": LabelTask(
        dtype="int64",
        classes=range(2, _MOST_CLASSES),
        expected="two names or more",
        output="probabilities",
    ),
    "multilabel": LabelTask(
        dtype="int64",
        classes=range(2, _MOST_CLASSES),
        expected="two names or more",
        output="probabilities",
        is_multi_hot=True,
    ),
    "regression": LabelTask(
        dtype="float32", classes=range(1), expected="none for regression", output="value"
    ),
    "multitarget": LabelTask(
        dtype="float32",
        classes=range(1),
        expected="none for regression",
        output="values",
    ),
    "next_token": LabelTask(
        dtype="int64", classes=range(1), expected="none for tokens", output="log_probabilities"
    ),
    RETRIEVAL: LabelTask(
        dtype="int64",
        classes=range(2, _MOST_ITEMS + 1),
        expected="the names of two items or more",
        output="scores",
    ),
    RANKING: LabelTask(
        dtype="int64", classes=range(1), expected="none: whole numbers say how relevant", output="score"
    ),
}


def declared_tasks() -> tuple[str, ...]:
    """The tasks that a schema file may name: several targets and tokens have tasks of their own."""
    others = (TASK_OF_SEVERAL["regression"], TokenLabel.task)
    return tuple(name for name in LABEL_TASKS if name not in others)


# --- How one room treats each feature type.

Entry = TypeVar("Entry")


class MissingFeatureTypeError(LookupError):
    """Raised where a table has no entry for a feature type: the fault of whoever added the type, not of the
    user.
    """


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureTypeTable(Generic[Entry]):
    """What a room does with a feature, by the feature's class.

    A room that must know a feature's type keeps one such table and asks for the type nowhere else, so that a
    new type needs one entry in each table. `where` is the module that holds the table, `question` the
    question that an entry answers, and `entry` describes an entry.
    """

    where: str
    question: str
    entry: str
    entries: Mapping[type[Feature], Entry]

    def of(self, feature: Feature) -> Entry:
        """The entry of the feature's type; raises MissingFeatureTypeError where there is none."""
        entry = self.entries.get(type(feature))
        if entry is None:
            raise MissingFeatureTypeError(self.lacks(type(feature)))
        return entry

    def lacks(self, kind: type[Feature]) -> str:
        """The message of a table that lacks an entry for `kind`; empty if it has one."""
        if kind in self.entries:
            return ""
        known = ", ".join(known.__name__ for known in self.entries)
        return (
            f"{self.where}, the table of {self.question}: received {kind.__name__}; expected one of {known}. "
            f"Add an entry for {kind.__name__}: {self.entry}."
        )
