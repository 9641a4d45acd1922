"""The one declared schema of a dataset, its JSON form and its fingerprint.

Everything else that describes the data is derived from it: wire encoding, parsing spec, static shapes,
validation, preprocessing, serving signature, TFDS's `features.json`, tensorflow-metadata's `schema.pbtxt`. So
adding a feature is one edit. Standard library and numpy only: Beam workers import this file.
"""

import collections
import dataclasses
import datetime
import functools
import hashlib
import itertools
import json
import keyword
import pathlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from pipeline.base import files
from pipeline.base.errors import InputError, unknown_name
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_json import (
    feature_from_json,
    feature_to_json,
    refuse_unknown_keys,
    schema_error,
)
from pipeline.data.schema.feature_types import (
    RANKING,
    TASK_OF_SEVERAL,
    Categorical,
    Datetime,
    Label,
    LabelGroup,
    Numeric,
    Text,
    TokenLabel,
    Tokens,
)

# --- What decides the split of a row: the values of columns, or cut-offs in one of them.

SPLIT_NAME = re.compile(r"[a-z][a-z0-9_]*")

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)

Start = str | float  # a date or a time, or a number


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitBy:
    """All rows with the same values in `columns` go to one split; with `starts`, cut-offs decide.

    Then rows whose value is before the first start go to the split `first`, and all others to the split of
    the last start that they have reached. Starts ascend; all are points in time in ISO 8601 (without a zone:
    UTC), or all are numbers.
    """

    columns: tuple[str, ...]
    first: str = ""
    starts: Mapping[str, Start] = dataclasses.field(default_factory=dict)  # starts by split

    def __post_init__(self) -> None:
        if not self.columns or not all(isinstance(name, str) and name for name in self.columns):
            raise _error("", list(self.columns), "names of columns")
        for split in self.splits:
            if not SPLIT_NAME.fullmatch(split):
                raise _error("", f"split {split!r}", "lower-case letters, digits and '_', a letter first")
        if self.first in self.starts:
            raise _error(", 'first'", self.first, "another split than those of 'from'")
        if any(before >= after for before, after in itertools.pairwise(self.bounds)):
            raise _error(", 'from'", dict(self.starts), "cut-offs that ascend")

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that cut-offs separate, in their order; none where a hash decides."""
        return (self.first, *self.starts) if self.starts else ()

    @property
    def is_time(self) -> bool:
        """Returns whether the cut-offs are points in time."""
        return any(isinstance(start, str) for start in self.starts.values())

    @property
    def bounds(self) -> list[float]:
        """The starts: microseconds since 1970-01-01 UTC, or numbers."""
        return [_microseconds(start) if self.is_time else start for start in self.starts.values()]


def split_by_to_json(split_by: SplitBy) -> list | dict:
    """A list of columns, or an object with the cut-offs."""
    if not split_by.starts:
        return list(split_by.columns)
    return {"column": split_by.columns[0], "first": split_by.first, "from": dict(split_by.starts)}


def split_by_from_json(document: object) -> SplitBy:
    """The inverse of `split_by_to_json`; raises an InputError that names what is wrong."""
    if isinstance(document, list):
        return SplitBy(columns=tuple(document))
    if not isinstance(document, Mapping):
        expected = "a list of columns, or an object with 'column', 'first' and 'from'"
        raise _error("", repr(document), expected)
    refuse_unknown_keys("split_by", document, {"column", "first", "from"})
    starts, first = document.get("from"), document.get("first", "train")
    if not isinstance(starts, Mapping) or not starts or not all(map(_is_start, starts.values())):
        expected = "an object: each split, and the date or number from which on rows are in it"
        raise _error(", 'from'", repr(starts), expected)
    if not isinstance(first, str):
        raise _error(", 'first'", repr(first), "the name of a split")
    return SplitBy(columns=(document.get("column"),), first=first, starts=dict(starts))


def _is_start(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _microseconds(start: Start) -> int:
    try:
        moment = datetime.datetime.fromisoformat(start)
    except (TypeError, ValueError):
        expected = "all dates or times in ISO 8601, such as 2026-11-01, or all numbers"
        raise _error(", 'from'", repr(start), expected) from None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)) - _EPOCH) // _MICROSECOND


def _error(where: str, received: object, expected: str) -> Exception:
    return schema_error(f"split_by{where}", received, expected)


# --- What makes several rows one record: the values of a column.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Group:
    """Rows with the same value in `column` are a group, which is one record of up to `length` rows.

    A row whose value is empty, or one of `missing`, is of no group.
    """

    column: str
    length: int
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise schema_error("group, 'column'", repr(self.column), "the name of a column")
        is_number = isinstance(self.length, int) and not isinstance(self.length, bool)
        if not is_number or self.length < 1:
            raise schema_error(
                "group, 'length'", repr(self.length), "the rows of the longest group, from 1 on"
            )
        if not all(isinstance(each, str) and each for each in self.missing):
            raise schema_error("group, 'missing'", list(self.missing), "texts that mean that there is none")


def group_from_json(document: object) -> Group:
    """Reads `{"column": …, "length": …, "missing": […]}`; raises an InputError that names what is wrong."""
    if not isinstance(document, Mapping):
        raise schema_error("group", repr(document), "an object with 'column' and 'length'")
    refuse_unknown_keys("group", document, {"column", "length", "missing"})
    missing = document.get("missing", [])
    if not isinstance(missing, list):
        raise schema_error("group, 'missing'", repr(missing), "a list of texts")
    return Group(column=document.get("column"), length=document.get("length"), missing=tuple(missing))


FORMAT = "penstock.schema/1"
FILE_NAME = "schema.json"
SEGMENTS = "segments"  # the tokens that number the documents of a row from 1; 0 is padding

# TFDS puts the name into file names and splits those at '-'.
_NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]*")


def check_name(name: str, *, thing: str, action: str) -> None:
    """Raises InputError unless a dataset may have this name."""
    if not _NAME_PATTERN.fullmatch(name):
        expected = "lower-case letters, digits and '_', starting with a letter"
        raise InputError(thing, received=name, expected=expected, action=action)


_GROUPED = (Numeric, Categorical, Datetime, Text, Label)  # the types of features that a group may have

F = TypeVar("F", bound=Feature)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schema:
    """The features of a dataset, and how raw data give its rows.

    `ignore` maps each raw column that is left out on purpose to the reason. A raw column that is neither read
    nor ignored is an error. `row_id` names the columns that identify a row for splitting and ordering;
    without it, all columns that the features read do. `split_by` decides the split instead, and leaves the
    order alone. `raw_files` remembers how raw files are read: values of flags of convert, by name; the
    fingerprint leaves them out. With a `group`, several rows are one record, and the features are those of
    the record, of `group_length` values each; `of_rows` has the features of one row.
    """

    name: str
    features: tuple[Feature, ...]
    ignore: Mapping[str, str] = dataclasses.field(default_factory=dict)
    row_id: tuple[str, ...] = ()
    raw_files: Mapping[str, object] = dataclasses.field(default_factory=dict, compare=False)
    split_by: SplitBy | None = None
    group: Group | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(map(self._as_in_a_record, self.features)))
        check_name(self.name, thing="schema name", action="Correct the schema file.")
        names = collections.Counter(feature.name for feature in self.features)
        repeated = sorted(name for name, times in names.items() if times > 1)
        if repeated:
            raise schema_error("features", f"{repeated} more than once", "every feature name once")
        if not names:
            raise schema_error("features", "an empty list", "at least one feature")
        labels = self.of_type(Label)
        tasks = {label.task for label in labels}
        if len(labels) > 1 and not (len(tasks) == 1 and tasks <= TASK_OF_SEVERAL.keys()):
            expected = "one label, or several whose tasks are all regression, or all binary"
            raise schema_error("features", {label.name: label.task for label in labels}, expected)
        if self.group:
            self._check_grouped()

    def _as_in_a_record(self, feature: Feature) -> Feature:
        length = self.group.length if self.group else 0
        return (
            feature if feature.group_length == length else dataclasses.replace(feature, group_length=length)
        )

    def _check_grouped(self) -> None:
        for feature in self.features:
            if type(feature) not in _GROUPED:
                kinds = ", ".join(kind.kind for kind in _GROUPED)
                raise InputError(
                    f"schema feature '{feature.name}'",
                    received=f"a feature of kind {feature.kind}",
                    expected=f"one value a row with a group: {kinds}",
                    action=f"Name it under 'ignore', or give infer_schema --ignore={feature.source_column}.",
                )
        tasks = [label.task for label in self.of_type(Label)]
        if tasks != [RANKING]:
            expected = f"one label, of task {RANKING}, where there is a group"
            raise schema_error("features", f"labels of the tasks {tasks}", expected)
        if self.split_by:
            expected = "none where there is a group: its column decides the split"
            raise schema_error("split_by", split_by_to_json(self.split_by), expected)

    @functools.cached_property
    def of_rows(self) -> "Schema":
        """The schema of a row by itself: itself, unless several rows are one record."""
        if not self.group:
            return self
        column = self.group.column
        reason = {} if column in self.columns else {column: "it says which rows are ranked together"}
        return dataclasses.replace(self, group=None, ignore={**self.ignore, **reason})

    @functools.cached_property
    def _by_name(self) -> Mapping[str, Feature]:
        return {feature.name: feature for feature in self.features}

    def __getitem__(self, name: str) -> Feature:
        if name in self._by_name:
            return self._by_name[name]
        raise unknown_name(
            f"feature of schema '{self.name}'", name, tuple(self._by_name), otherwise="Name one of these."
        )

    def of_type(self, *kinds: type[F]) -> tuple[F, ...]:
        """The features of these types, in declared order."""
        return tuple(feature for feature in self.features if isinstance(feature, kinds))

    @property
    def label(self) -> Label:
        """The label, of several all together; tokens without a label are their own.

        Raises:
          InputError: none is declared, and there are no tokens, or several.
        """
        labels = self.of_type(Label)
        if not labels and (tokens := self._only_tokens()):
            return tokens
        if not labels:
            raise InputError(
                f"schema '{self.name}', features",
                received="no label",
                expected="one feature of kind 'label', which is what a model predicts",
                action="Give the column to predict that kind (infer_schema --label=COLUMN); convert again.",
            )
        if len(labels) == 1:
            return labels[0]
        names, task = tuple(label.name for label in labels), TASK_OF_SEVERAL[labels[0].task]
        classes = names if task == "multilabel" else ()
        return LabelGroup(name=", ".join(names), parts=names, task=task, classes=classes)

    def _only_tokens(self) -> TokenLabel | None:
        """The only tokens of the schema as a label; None where there are none, or several."""
        found = [feature for feature in self.of_type(Tokens) if feature.name != SEGMENTS]
        if len(found) != 1:
            return None
        [tokens] = found
        return TokenLabel(
            name=tokens.name,
            parts=(tokens.name, *([SEGMENTS] if SEGMENTS in self._by_name else [])),
            length=tokens.length,
            vocabulary_size=tokens.vocabulary_size,
            tokenizer=tokens.tokenizer,
        )

    @property
    def inputs(self) -> tuple[Feature, ...]:
        """Every feature but the label, in declared order."""
        return tuple(feature for feature in self.features if not isinstance(feature, Label))

    @property
    def columns(self) -> tuple[str, ...]:
        """The raw columns that the features read."""
        return tuple(feature.source_column for feature in self.features)

    @property
    def placing_columns(self) -> tuple[str, ...]:
        """The raw columns that are named to place rows, whether features read them or not."""
        by = self.split_by.columns if self.split_by else ()
        return (*self.row_id, *by, *([self.group.column] if self.group else []))

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal, of what changes the data: `COMMENTS` do not."""
        return hashlib.sha256(_canonical(to_json(self, comments=False))).hexdigest()


def load(path: str | pathlib.Path) -> Schema:
    """Reads a schema file; raises an InputError that names the wrong field."""
    path = pathlib.Path(path)
    try:
        content = files.read_bytes(path)
    except IsADirectoryError:
        action = f"Name the file in it; that of a dataset is {path / FILE_NAME}."
        raise _no_schema(path, "a directory", action) from None
    except FileNotFoundError:
        action = "Write one with `python -m beam_jobs.infer_schema --output=schema.json`."
        raise _no_schema(path, "no such file", action) from None
    except files.NotOrdinaryError as error:
        raise _no_schema(path, error.strerror, "Write what it gives to a file, and name that.") from None
    return loads(content, path)


def loads(content: bytes, path: str | pathlib.Path) -> Schema:
    """The inverse of `dumps`; `path` names the file in the InputError."""
    try:
        document = json.loads(content)
        json.dumps(document, ensure_ascii=False).encode()  # half of a surrogate pair cannot be encoded
    except (ValueError, RecursionError) as error:
        raise _no_schema(path, f"invalid JSON ({error})", "Correct the file at that position.") from None
    return from_json(document)


def _no_schema(path: str | pathlib.Path, received: str, action: str) -> InputError:
    return InputError(f"schema file {path}", received=received, expected="a JSON schema", action=action)


def save(schema: Schema, path: str | pathlib.Path) -> None:
    files.write_bytes(path, dumps(schema).encode())


def dumps(schema: Schema) -> str:
    return json.dumps(to_json(schema), indent=2, ensure_ascii=False) + "\n"


def to_json(schema: Schema, *, comments: bool = True) -> dict:
    """The schema as JSON, without the fields that are left at their default."""
    document: dict = {"format": FORMAT, "name": schema.name}
    if schema.raw_files and comments:
        document["raw_files"] = dict(schema.raw_files)
    if schema.row_id:
        document["row_id"] = list(schema.row_id)
    if schema.split_by:
        document["split_by"] = split_by_to_json(schema.split_by)
    if schema.group:
        group = dataclasses.asdict(schema.group) | {"missing": list(schema.group.missing)}
        document["group"] = {key: value for key, value in group.items() if value != []}
    document["features"] = [feature_to_json(feature, comments=comments) for feature in schema.features]
    if schema.ignore:
        document["ignore"] = dict(schema.ignore) if comments else sorted(schema.ignore)
    return document


def from_json(document: Mapping) -> Schema:
    """The inverse of `to_json`; unknown keys are refused."""
    if not isinstance(document, Mapping) or document.get("format") != FORMAT:
        received = document.get("format") if isinstance(document, Mapping) else type(document).__name__
        raise schema_error("format", received, f"'{FORMAT}'")
    known = {"format", "name", "features", "ignore", "row_id", "split_by", "group", "raw_files"}
    refuse_unknown_keys("schema", document, known)
    features = document.get("features")
    if not isinstance(features, list):
        raise schema_error("features", type(features).__name__, "a list of features")
    ignore, row_id = document.get("ignore", {}), document.get("row_id", [])
    if not (isinstance(ignore, Mapping) and all(isinstance(reason, str) for reason in ignore.values())):
        raise schema_error("ignore", repr(ignore), "an object: column name to reason")
    if not (isinstance(row_id, list) and all(isinstance(column, str) for column in row_id)):
        raise schema_error("row_id", repr(row_id), "a list of column names")
    raw_files = document.get("raw_files", {})
    if not (isinstance(raw_files, Mapping) and all(map(_is_flag_value, raw_files.values()))):
        expected = "an object: flag of convert to text, or list of text"
        raise schema_error("raw_files", repr(raw_files), expected)
    return Schema(
        name=str(document.get("name", "")),
        features=tuple(feature_from_json(feature) for feature in features),
        ignore=dict(ignore),
        row_id=tuple(row_id),
        raw_files=dict(raw_files),
        split_by=split_by_from_json(document["split_by"]) if "split_by" in document else None,
        group=group_from_json(document["group"]) if "group" in document else None,
    )


def _is_flag_value(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(v, str) for v in value))


def incompatibilities(reader: Schema, dataset: Schema) -> list[str]:
    """The reasons why `reader`, a model's schema, cannot read records of `dataset`; empty if it can.

    The dataset may lack a feature whose fill value the reader declares. A reader of rows can read the rows of
    groups.
    """
    dataset = dataset if reader.group else dataset.of_rows
    stored = {feature.name: feature for feature in dataset.features}
    problems = []
    for feature in reader.features:
        other = stored.get(feature.name)
        if other is None:
            if feature.fill is None:
                problems.append(f"feature '{feature.name}' is absent and has no default")
        elif (other.dtype, other.shape) != (feature.dtype, feature.shape):
            have, want = f"{other.dtype}{list(other.shape)}", f"{feature.dtype}{list(feature.shape)}"
            problems.append(f"feature '{feature.name}' is {have}, not {want}")
        elif isinstance(feature, Numeric) and isinstance(other, Numeric) and feature.offset != other.offset:
            problems.append(f"feature '{feature.name}' has offset {other.offset!r}, not {feature.offset!r}")
        elif isinstance(feature, Label) and not isinstance(other, Label):
            problems.append(f"feature '{feature.name}' is a {other.kind}, not the label")
        elif isinstance(feature, Label) and feature.classes != other.classes:
            problems.append(f"label '{feature.name}' has {_other_classes(other, feature)}")
    return problems


def _other_classes(found: Label, expected: Label) -> str:
    if not expected.is_retrieval:
        return f"classes {found.classes}, not {expected.classes}"
    new, gone = {*found.classes} - {*expected.classes}, {*expected.classes} - {*found.classes}
    return f"other items, or in another order: {len(new):,} are new, {len(gone):,} are gone"


def _canonical(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


# --- Names of features: they are identifiers, which every tool that uses the dataset accepts.

# Names of arguments of a SavedModel's signature begin with a letter.
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_RESERVED = {*keyword.kwlist, "self"}


def is_identifier(name: str) -> bool:
    """Returns whether `name` may be the argument of a function, and a node of a TensorFlow graph."""
    return bool(_IDENTIFIER.fullmatch(name)) and name not in _RESERVED


def ascii_words(text: str) -> str:
    """The ASCII letters and digits of `text`, joined by `_`; accents are dropped."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9]+", "_", plain).strip("_")


def identifiers(columns: Iterable[str]) -> dict[str, str]:
    """An identifier for each raw column, in the order of the columns: `plan type` → `plan_type`.

    A column whose name is an identifier keeps it. Where names differ only in case, the first one keeps its
    name, and the others are numbered.
    """
    columns = list(columns)
    found: dict[str, str] = {}
    taken: set[str] = set()
    by_right = sorted(range(len(columns)), key=lambda number: (not is_identifier(columns[number]), number))
    for number in by_right:
        name = next(name for name in _candidates(columns[number], number + 1) if name.lower() not in taken)
        found[columns[number]] = name
        taken.add(name.lower())
    return {column: found[column] for column in columns}


def check_names(schema: Schema) -> None:
    """Raises InputError if a feature's name is not an identifier, before any row is read."""
    names = identifiers(feature.name for feature in schema.features)
    for feature in schema.features:
        if not is_identifier(feature.name):
            raise InputError(
                f"schema feature '{feature.name}', field 'name'",
                received=repr(feature.name),
                expected="an identifier: ASCII letters, digits and '_', a letter first, no word of Python",
                action=f'Write "name": "{names[feature.name]}", "column": "{feature.source_column}".',
            )


def _candidates(column: str, number: int) -> Iterator[str]:
    """Yields names for the column of this number, the best first; it never ends."""
    stem = column if is_identifier(column) else _as_identifier(column, number)
    yield stem
    yield from (f"{stem}_{n}" for n in itertools.count(2))


def _as_identifier(column: str, number: int) -> str:
    words = ascii_words(column.replace("ß", "ss"))
    if not words:
        return f"column_{number}"
    words = words if words[0].isalpha() else f"column_{words}"
    return f"{words}_" if words in _RESERVED else words
