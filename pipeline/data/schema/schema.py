"""The one declared schema of a dataset, its JSON form and its fingerprint.

Everything else that describes the data is derived from it: wire encoding, parsing spec, static shapes,
validation, preprocessing, serving signature, TFDS's `features.json`, tensorflow-metadata's `schema.pbtxt`. So
adding a feature is one edit. Standard library and numpy only: Beam workers import this file.
"""

import collections
import dataclasses
import functools
import hashlib
import json
import pathlib
import re
from collections.abc import Mapping
from typing import TypeVar

from pipeline.data import atomic_files, ordinary_files
from pipeline.data.errors import InputError
from pipeline.data.schema import feature_json, split_by
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_json import refuse_unknown_keys, schema_error
from pipeline.data.schema.kinds import Label, Numeric
from pipeline.data.schema.split_by import SplitBy

FORMAT = "penstock.schema/1"
FILE_NAME = "schema.json"

# TFDS puts the name into file names and splits those at '-'.
_NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]*")

F = TypeVar("F", bound=Feature)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schema:
    """What a dataset holds.

    `ignore` maps each raw column that is left out on purpose to the reason. A raw column that is neither read
    nor ignored is an error. `row_id` names the columns that identify a row for splitting and ordering; if it
    is empty, all that the features read do. `split_by` decides the split instead, and leaves the order alone.
    `raw_files` remembers how raw files are read: values of flags of convert, by name. They change no byte of
    the records.
    """

    name: str
    features: tuple[Feature, ...]
    ignore: Mapping[str, str] = dataclasses.field(default_factory=dict)
    row_id: tuple[str, ...] = ()
    raw_files: Mapping[str, object] = dataclasses.field(default_factory=dict, compare=False)
    split_by: SplitBy | None = None

    def __post_init__(self) -> None:
        if not _NAME_PATTERN.fullmatch(self.name):
            raise schema_error(
                "name", self.name, "lower-case letters, digits and '_', starting with a letter"
            )
        names = collections.Counter(feature.name for feature in self.features)
        repeated = sorted(name for name, times in names.items() if times > 1)
        if repeated:
            raise schema_error("features", f"{repeated} more than once", "every feature name once")
        if not names:
            raise schema_error("features", "an empty list", "at least one feature")
        if len(self.of_kind(Label)) > 1:
            raise schema_error("features", [label.name for label in self.of_kind(Label)], "at most one label")

    @functools.cached_property
    def _by_name(self) -> Mapping[str, Feature]:
        return {feature.name: feature for feature in self.features}

    def __getitem__(self, name: str) -> Feature:
        if name in self._by_name:
            return self._by_name[name]
        known = ", ".join(feature.name for feature in self.features)
        raise schema_error("features", f"a request for '{name}'", f"one of {known}")

    def of_kind(self, *kinds: type[F]) -> tuple[F, ...]:
        """The features of these kinds, in declared order."""
        return tuple(feature for feature in self.features if isinstance(feature, kinds))

    @property
    def label(self) -> Label:
        """The label; raises InputError where the schema declares none."""
        labels = self.of_kind(Label)
        if not labels:
            raise InputError(
                f"schema '{self.name}', features",
                received="no label",
                expected="one feature of kind 'label', which is what a model predicts",
                action="Give the column to predict that kind (infer_schema --label=COLUMN); convert again.",
            )
        return labels[0]

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
        return (*self.row_id, *(self.split_by.columns if self.split_by else ()))

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal, of what changes the data: `COMMENTS` do not."""
        return hashlib.sha256(_canonical(to_json(self, comments=False))).hexdigest()


def load(path: str | pathlib.Path) -> Schema:
    """Reads a schema file; raises InputError naming the field that is wrong."""
    path = pathlib.Path(path)
    try:
        content = ordinary_files.read_bytes(path)
    except IsADirectoryError:
        raise InputError(
            f"schema file {path}",
            received="a directory",
            expected="a JSON schema",
            action=f"Name the file in it; that of a dataset is {path / FILE_NAME}.",
        ) from None
    except FileNotFoundError:
        raise InputError(
            f"schema file {path}",
            received="no such file",
            expected="a JSON schema",
            action="Write one with `python -m beam_jobs.infer_schema --output=schema.json`.",
        ) from None
    except ordinary_files.NotOrdinaryError as error:
        raise InputError(
            f"schema file {path}",
            received=error.strerror,
            expected="a JSON schema",
            action="Write what it gives to a file, and name that.",
        ) from None
    return loads(content, path)


def loads(content: bytes, path: str | pathlib.Path) -> Schema:
    """The inverse of `dumps`; `path` names the file in the InputError."""
    try:
        document = json.loads(content)
        json.dumps(document, ensure_ascii=False).encode()  # which half of a surrogate pair cannot be
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"schema file {path}",
            received=f"invalid JSON ({error})",
            expected="a JSON schema",
            action="Correct the file at that position.",
        ) from None
    return from_json(document)


def save(schema: Schema, path: str | pathlib.Path) -> None:
    """Writes the file that `load` reads."""
    atomic_files.write_bytes(path, dumps(schema).encode())


def dumps(schema: Schema) -> str:
    """The content of a schema file."""
    return json.dumps(to_json(schema), indent=2, ensure_ascii=False) + "\n"


def to_json(schema: Schema, *, comments: bool = True) -> dict:
    """The schema as JSON, without the fields that are left at their default."""
    document: dict = {"format": FORMAT, "name": schema.name}
    if schema.raw_files and comments:
        document["raw_files"] = dict(schema.raw_files)
    if schema.row_id:
        document["row_id"] = list(schema.row_id)
    if schema.split_by:
        document["split_by"] = split_by.to_json(schema.split_by)
    document["features"] = [feature_json.to_json(feature, comments=comments) for feature in schema.features]
    if schema.ignore:
        document["ignore"] = dict(schema.ignore) if comments else sorted(schema.ignore)
    return document


def from_json(document: Mapping) -> Schema:
    """The inverse of `to_json`; unknown keys are refused."""
    if not isinstance(document, Mapping) or document.get("format") != FORMAT:
        received = document.get("format") if isinstance(document, Mapping) else type(document).__name__
        raise schema_error("format", received, f"'{FORMAT}'")
    known = {"format", "name", "features", "ignore", "row_id", "split_by", "raw_files"}
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
        raise schema_error(
            "raw_files", repr(raw_files), "an object: flag of convert to text, or list of text"
        )
    return Schema(
        name=str(document.get("name", "")),
        features=tuple(feature_json.from_json(feature) for feature in features),
        ignore=dict(ignore),
        row_id=tuple(row_id),
        raw_files=dict(raw_files),
        split_by=split_by.from_json(document["split_by"]) if "split_by" in document else None,
    )


def _is_flag_value(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(v, str) for v in value))


def incompatibilities(reader: Schema, dataset: Schema) -> list[str]:
    """Why `reader`, a model's schema, cannot read records of `dataset`; empty if it can.

    The dataset may lack a feature whose fill value the reader declares.
    """
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
            problems.append(f"label '{feature.name}' has classes {other.classes}, not {feature.classes}")
    return problems


def _canonical(document: object) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
