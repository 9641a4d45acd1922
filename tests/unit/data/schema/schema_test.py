"""The schema: its JSON form, its names and splits, what it refuses, and what its fingerprint stands for."""

import dataclasses
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.base.errors import InputError
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature import Clean
from pipeline.data.schema.feature_types import Categorical, Image, Label, Numeric, Tensor, Text, Tokens
from pipeline.data.schema.schema import Schema, SplitBy, check_names, identifiers, is_identifier

CENSUS = Schema(
    name="census",
    features=(
        Numeric(name="age", minimum=0, maximum=120),
        Numeric(name="gain", number="int64", missing="default", default=0),
        Categorical(
            name="workclass",
            vocabulary=("Private", "State-gov"),
            missing="mark",
            clean=Clean(strip=" ", null_markers=("?", ""), aliases={"private": "Private"}),
        ),
        Categorical(name="zip", encoding="hashed", buckets=1024),
        Categorical(name="hour", encoding="integer", size=24),
        Image(name="portrait", height=8, width=8, channels=1, encoding="png"),
        Text(name="notes"),
        Text(name="review", pairs=True, gap=2, characters=(3, 6)),
        Tokens(name="tokens", length=16, vocabulary_size=100),
        Tensor(name="embedding", dimensions=(2, 3)),
        Label(name="income", column="50k", classes=("<=50K", ">50K")),
    ),
    ignore={"fnlwgt": "a sampling weight, not a property of the person"},
    row_id=("person",),
)


def test_json_round_trip_keeps_everything(tmp_path):
    schema_lib.save(CENSUS, tmp_path / "schema.json")
    assert schema_lib.load(tmp_path / "schema.json") == CENSUS


names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
numerics = st.builds(
    Numeric,
    name=names,
    column=st.text(max_size=5),
    minimum=st.none() | st.floats(-1e9, 0),
    maximum=st.none() | st.floats(0, 1e9),
    missing=st.sampled_from(["reject", "mark"]),
)
categoricals = st.builds(
    Categorical,
    name=names,
    vocabulary=st.lists(st.text(max_size=5), unique=True, max_size=4).map(tuple),
    clean=st.builds(Clean, aliases=st.dictionaries(st.text("abc "), st.text("xyz", min_size=1), max_size=3)),
)


@settings(max_examples=40)
@given(st.lists(numerics | categoricals, min_size=1, max_size=5, unique_by=lambda feature: feature.name))
def test_json_round_trip_of_any_schema(features):
    schema = Schema(name="any", features=tuple(features))
    copy = schema_lib.from_json(json.loads(schema_lib.dumps(schema)))
    assert copy == schema
    assert copy.fingerprint == schema.fingerprint


def test_fingerprint_counts_what_changes_the_data_and_nothing_else():
    def with_age(**fields) -> str:
        return Schema(name="census", features=(Numeric(name="age", **fields),)).fingerprint

    assert with_age(description="in years", evidence={"missing": 0.0}) == with_age()
    assert with_age(minimum=1) != with_age()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "schema format: received None; expected 'penstock.schema/1'"),
        ({"features": []}, "expected at least one feature"),
        ({"features": [{"kind": "number", "name": "x"}]}, "field 'kind': received number; expected one of"),
        ({"features": [{"kind": "numeric", "name": "x", "min": 0}]}, "feature 'x', keys: received min"),
        (
            {"features": [{"kind": "numeric", "name": "x", "vocabulary": ["1"]}]},
            "offset, statistics; kind 'numeric' needs name alone, and what is left out has its default",
        ),
        ({"features": [{"kind": "numeric", "name": "x", "minimum": "0"}]}, "field 'minimum': received '0'"),
        ({"features": [{"kind": "numeric"}]}, "expected a non-empty name"),
        ({"features": [{"kind": "label", "name": "y", "classes": ["a"]}]}, "two names, the positive class"),
        (
            {"features": [{"kind": "label", "name": "y", "task": "multiclass", "classes": ["a"]}]},
            "two names or more",
        ),
        (
            {"features": [{"kind": "tokens", "name": "t", "length": 1.5}]},
            "'length': received 1.5; expected a whole number",
        ),
        ({"features": [{"kind": "image", "name": "i", "height": 5}]}, "both positive, or both 0"),
        ({"features": [{"kind": "numeric", "name": "x"}] * 2}, "every feature name once"),
        ({"nmae": "census", "features": []}, "keys: received nmae"),
        (
            {"features": [{"kind": "categorical", "name": "c", "encoding": "hashed"}]},
            "field 'buckets': received 0",
        ),
        (
            {
                "features": [
                    {"kind": "categorical", "name": "c", "encoding": "integer", "size": (1 << 31) - 1}
                ]
            },
            "field 'size': received 2147483647; expected 1 to 2,147,483,646 values",
        ),
        (
            {
                "features": [
                    {
                        "kind": "categorical",
                        "name": "c",
                        "encoding": "hashed",
                        "buckets": 9,
                        "vocabulary": ["a"],
                    }
                ]
            },
            "field 'vocabulary': received ('a',); expected none beside hashed",
        ),
        (
            {"features": [{"kind": "categorical", "name": "c", "unknown": "reject"}]},
            "the values that are allowed",
        ),
        (
            {"features": [{"kind": "numeric", "name": "x", "number": "int64", "missing": "mark"}]},
            "no value of an int64 can stand for a missing one",
        ),
        (
            {"features": [{"kind": "numeric", "name": "x", "clean": {"strp": " "}}]},
            "field 'clean', keys: received strp",
        ),
        ({"features": [{"kind": ["numeric"], "name": "x"}]}, "field 'kind': received ['numeric']"),
        ({"features": ["x"]}, "expected an object for each feature"),
        (
            {"features": [{"kind": "categorical", "name": "c", "vocabulary": [1, 2]}]},
            "field 'vocabulary': received [1, 2]; expected a list of texts",
        ),
        (
            {"features": [{"kind": "categorical", "name": "c", "vocabulary": ["a", "b", "a"]}]},
            "field 'vocabulary': received ['a']; expected every value once",
        ),
        (
            {"features": [{"kind": "numeric", "name": "x", "clean": {"aliases": {"a": 1}}}]},
            "field 'aliases': received {'a': 1}; expected an object of texts",
        ),
        ({"features": [{"kind": "numeric", "name": "x"}], "ignore": ["y"]}, "ignore: received ['y']"),
        ({"features": [{"kind": "numeric", "name": "x"}], "row_id": "y"}, "row_id: received 'y'"),
        ({"name": "Census", "features": [{"kind": "numeric", "name": "x"}]}, "received Census; expected"),
    ],
)
def test_a_wrong_schema_is_refused_with_the_field_named(document, message):
    base = {"format": schema_lib.FORMAT, "name": "census"} if document else {}
    with pytest.raises(InputError) as error:
        schema_lib.from_json({**base, **document})
    assert message in str(error.value)


def test_a_file_that_is_not_json_says_where(tmp_path):
    (tmp_path / "schema.json").write_text('{"format": ')
    with pytest.raises(InputError, match=r"schema\.json: received invalid JSON .*line 1 column 12"):
        schema_lib.load(tmp_path / "schema.json")


def test_a_missing_file_says_how_to_write_one(tmp_path):
    with pytest.raises(InputError, match=r"no such file.*beam_jobs\.infer_schema"):
        schema_lib.load(tmp_path / "schema.json")


def test_a_feature_with_a_default_may_be_added_and_a_changed_one_may_not():
    old = Schema(name="d", features=(Numeric(name="x"), Label(name="y", classes=("a", "b"))))

    def new(*features):
        return Schema(name="d", features=features)

    added = Numeric(name="z", missing="default", default=0.0)
    assert schema_lib.incompatibilities(new(*old.features, added), old) == []
    assert schema_lib.incompatibilities(new(Numeric(name="z")), old) == [
        "feature 'z' is absent and has no default"
    ]
    assert schema_lib.incompatibilities(new(Numeric(name="x", number="int64")), old) == [
        "feature 'x' is float32[], not int64[]"
    ]
    assert schema_lib.incompatibilities(new(Numeric(name="x", offset=7)), old) == [
        "feature 'x' has offset 0.0, not 7"
    ]
    assert "classes" in schema_lib.incompatibilities(new(Label(name="y", classes=("b", "a"))), old)[0]
    two, three = (
        new(Label(name="y", classes=names, task="retrieval")) for names in (("a", "b"), ("b", "c", "d"))
    )
    assert schema_lib.incompatibilities(two, three) == [
        "label 'y' has other items, or in another order: 2 are new, 1 are gone"
    ]


@pytest.mark.parametrize(("number", "offset"), [("int64", 1.0), ("float32", math.inf)])
def test_an_offset_is_finite_and_of_a_float32(number, offset):
    with pytest.raises(InputError, match=r"field 'offset'.*a finite number, and none of an int64"):
        Numeric(name="n", number=number, offset=offset)


@pytest.mark.parametrize(
    "clean",
    [
        Clean(aliases={"a": "b", "b": "c"}),
        Clean(aliases={"a": "?"}, null_markers=("?",)),
        Clean(aliases={"a": " b"}),
    ],
)
def test_what_an_alias_stands_for_is_not_cleaned_again(clean):
    with pytest.raises(InputError, match=r"field 'clean: aliases': received \['.*that clean-up leaves as"):
        Categorical(name="c", clean=clean)


def test_a_fill_value_that_clean_up_would_change_is_refused():
    with pytest.raises(InputError, match=r"field 'default': received 'a'; .*that clean-up leaves as"):
        Categorical(name="c", missing="default", default="a", clean=Clean(aliases={"a": "b"}))
    with pytest.raises(
        InputError, match=r"field 'clean: aliases': received ''; expected for a missing value"
    ):
        Categorical(name="c", missing="mark", clean=Clean(aliases={"": "b"}, null_markers=("?",)))
    Categorical(name="c", missing="default", default="?", clean=Clean(null_markers=("?",)))


def test_nothing_is_removed_from_text():
    with pytest.raises(
        InputError, match=r"field 'clean: remove, decimal'.*none, as the values are no numbers"
    ):
        Categorical(name="c", clean=Clean(remove=("a",)))


def test_a_file_nested_too_deep_is_not_json(tmp_path):
    (tmp_path / "schema.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match="invalid JSON"):
        schema_lib.load(tmp_path / "schema.json")


def test_a_schema_without_a_label_says_how_to_get_one():
    schema = Schema(name="corpus", features=(Numeric(name="age"),))
    with pytest.raises(InputError, match=r"schema 'corpus', features: received no label; .*--label=COLUMN"):
        _ = schema.label


def test_a_directory_is_no_schema(tmp_path):
    with pytest.raises(InputError, match="received a directory"):
        schema_lib.load(tmp_path)


def test_half_of_a_surrogate_pair_is_not_json(tmp_path):
    (tmp_path / "schema.json").write_text('{"name": "\\ud800"}')
    with pytest.raises(InputError, match=r"schema\.json: received invalid JSON .*surrogates"):
        schema_lib.load(tmp_path / "schema.json")


@pytest.mark.parametrize("default", [float("nan"), float("inf"), 0.5])
def test_the_default_of_an_integer_is_a_whole_number(default):
    with pytest.raises(InputError, match=r"field 'default'.*a whole number"):
        Numeric(name="n", number="int64", missing="default", default=default)


def test_a_folder_is_made_for_the_file_which_is_utf_8_and_remembers_how_raw_files_are_read(tmp_path):
    raw_files = {"delimiter": ";", "encoding": "latin-1", "column_names": ["a", "b"]}
    schema = Schema(name="s", features=(Numeric(name="x", column="größe"),), raw_files=raw_files)
    path = tmp_path / "new" / "folder" / "schema.json"
    schema_lib.save(schema, path)
    assert "größe" in path.read_bytes().decode("utf-8")
    assert schema_lib.load(path).raw_files == raw_files
    assert schema.fingerprint == dataclasses.replace(schema, raw_files={}).fingerprint


def test_what_is_remembered_is_text(tmp_path):
    document = schema_lib.to_json(Schema(name="s", features=(Numeric(name="x"),))) | {
        "raw_files": {"header": 1}
    }
    with pytest.raises(InputError, match="raw_files"):
        schema_lib.from_json(document)


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        (["age", "Plan", "x_1"], ["age", "Plan", "x_1"]),
        (["plan type", "plan?", "größe"], ["plan_type", "plan", "grosse"]),
        (["class", "self", "2nd", "_id"], ["class_", "self_", "column_2nd", "id"]),
        (["#1", "数", "--"], ["column_1", "column_2", "column_3"]),
        (["a b", "a_b", "a.b"], ["a_b_2", "a_b", "a_b_3"]),
        (["Age", "age", "AGE_2"], ["Age", "age_2", "AGE_2_2"]),
        (["price#2", "price#4", "image/encoded"], ["price_2", "price_4", "image_encoded"]),
    ],
)
def test_each_column_gets_an_identifier_of_its_own(columns, names):
    found = identifiers(columns)
    assert (list(found), list(found.values())) == (columns, names)
    assert all(map(is_identifier, names))


@pytest.mark.parametrize("name", ["plan type", "größe", "plan?", "class", "2nd", "a.b", "_id"])
def test_another_name_in_a_schema_is_refused_with_the_remedy(name: str):
    schema = Schema(name="s", features=(Numeric(name="plan_type"), Numeric(name=name)))
    with pytest.raises(InputError, match=f'"column": "{name}"'.replace("?", r"\?")):
        check_names(schema)


# What a schema may say of splits.
CUT = {"column": "day", "first": "train", "from": {"test": "2026-11-01"}}


@pytest.mark.parametrize("document", [["user"], ["user", "day"], CUT, {**CUT, "from": {"a": 1, "b": 2.5}}])
def test_it_is_read_as_it_was_written(document: object):
    assert schema_lib.split_by_to_json(schema_lib.split_by_from_json(document)) == document


def test_a_time_without_a_zone_is_utc():
    starts = {"a": "1970-01-02", "b": "1970-01-02T02:00:00+01:00"}
    assert SplitBy(columns=("c",), first="x", starts=starts).bounds == [86_400e6, 90_000e6]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("user", "split_by: received 'user'"),
        ([], "names of columns"),
        ([1], "names of columns"),
        ({"from": {"test": 1}}, "names of columns"),
        ({**CUT, "from": {}}, "split_by, 'from'"),
        ({**CUT, "from": {"test": True}}, "split_by, 'from'"),
        ({**CUT, "from": {"test": "soon"}}, "ISO 8601"),
        ({**CUT, "from": {"a": "2026-11-01", "test": 3}}, "ISO 8601"),
        ({**CUT, "from": {"a": "2026-11-01", "test": "2026-10-01"}}, "ascend"),
        ({**CUT, "from": {"train": 1}}, "another split"),
        ({**CUT, "first": "A-b"}, "lower-case letters"),
        ({**CUT, "to": {}}, "keys: received to"),
    ],
)
def test_what_is_wrong_is_named(document: object, message: str):
    with pytest.raises(InputError) as caught:
        schema_lib.split_by_from_json(document)
    assert message in str(caught.value)


def test_several_labels_are_one_where_they_are_all_numbers_or_all_of_two_classes():
    numbers = [Label(name=name, task="regression") for name in ("a", "b")]
    pairs = [Label(name=name, classes=("no", "yes")) for name in ("c", "d")]
    together = Schema(name="two", features=(*numbers, Numeric(name="x"))).label
    assert (together.task, together.parts, together.shape) == ("multitarget", ("a", "b"), (2,))
    together = Schema(name="two", features=(*pairs, Numeric(name="x"))).label
    assert (together.task, together.classes, together.dtype) == ("multilabel", ("c", "d"), "int64")
    with pytest.raises(InputError, match=r"expected one label, or several whose tasks are all regression"):
        Schema(name="two", features=(numbers[0], pairs[0]))
    with pytest.raises(InputError, match=r"field 'task'.*received 'multitarget'; expected one of binary, "):
        Label(name="a", task="multitarget")
