"""JSON Lines: nested paths, lines that are no objects, and rows that do not depend on their neighbours."""

import json
import pathlib
import subprocess

import pytest

from beam_jobs.cells.typed import parse
from beam_jobs.conversion.assignment import row_ids
from beam_jobs.sources.jsonl import JsonLines
from beam_jobs.sources.source import RawRows, likely_cause
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import Categorical, Numeric, Tensor
from tests.shared import raw_rows


def read(path: pathlib.Path, **options: int) -> list[RawRows]:
    return raw_rows.read(JsonLines(**options), path)


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "data.jsonl"


def values(raw: list[RawRows], feature: Feature) -> list:
    return [
        value
        for part in raw
        for value in parse(feature, part.column(feature.source_column)).values.to_pylist()
    ]


def test_values_inside_objects_are_named_by_their_path(path: pathlib.Path):
    path.write_text('{"a": {"b": {"c": 1}, "d": "x"}}\n{"a": null}\n{"a": {"b": {}, "d": null}}\n')
    raw = read(path)
    assert values(raw, Numeric(name="n", column="a.b.c", missing="mark")) == [1, None, None]
    assert values(raw, Categorical(name="c", column="a.d", missing="mark")) == ["x", None, None]


def test_what_is_no_object_is_one_rejected_row(path: pathlib.Path):
    path.write_bytes(b'{"a": 1}\n[1]\n\n{"a":\n{"a": "\xff"}\n{"a": {"b": 1}, "a.b": 2}\n{"a": 2}')
    [raw] = read(path)
    assert raw.numbers.tolist() == [1, 7]
    assert {rejection.row: rejection.reason for rejection in raw.rejected} == {
        2: "not a JSON object (a list)",
        4: "not a JSON object (Expecting value)",
        5: "not a JSON object (not UTF-8)",
        6: "two values at 'a.b'",
    }


@pytest.mark.parametrize(("before", "value"), [("2.5", "true"), ("[2.5, 3]", "[true]"), ("2.5", "[false]")])
def test_a_boolean_keeps_its_text_beside_a_fraction(path: pathlib.Path, before: str, value: str):
    path.write_text(f'{{"a": {before}}}\n{{"a": {value}}}\n')
    together, alone = read(path), read(path, batch_rows=1)
    assert row_ids(together[0], ["a"])[1] == row_ids(alone[1], ["a"])[0]


def test_a_key_that_is_twice_in_an_object_rejects_its_row(path: pathlib.Path):
    path.write_bytes(b'{"a": 1, "a": 2}\n{"a": 3}\n{"a": {"b": 1, "b": 1}}\n{"a": "\xed\xa0\xbd"}\n')
    [raw] = read(path)
    assert (raw.columns.to_pylist(), [rejection.row for rejection in raw.rejected]) == ([{"a": 3}], [1, 3, 4])
    assert raw.rejected[0].reason == "not a JSON object (the key 'a' twice)"


def test_the_advice_on_keys_that_are_twice_keeps_their_last_values(path: pathlib.Path):
    rows = [{"id": 2**62 + row, "a": row} for row in range(40)]
    path.write_text("".join(f'{{"a": 0, {json.dumps(row)[1:]}\n' for row in rows))
    [raw] = read(path)
    advice = likely_cause({row.reason: 40 for row in raw.rejected}, rows=40)
    command = advice.partition(": ")[2].replace("FILE", str(path)).replace("NEW.jsonl", str(path) + ".new")
    subprocess.run(command, shell=True, check=True)
    path.with_name(path.name + ".new").rename(path)
    assert [row for raw in read(path) for row in raw.columns.to_pylist()] == rows


def test_half_a_surrogate_pair_and_deep_nesting_reject_their_row(path: pathlib.Path):
    deep = b'{"a":' * 200_000 + b"1" + b"}" * 200_000
    rows = [b'{"a": "\\ud83d\\ude00"}', b'{"a": "\\ud83d"}', b'{"\\ud83d": 1}', deep, b'{"a": "\\\\ud83d"}']
    path.write_bytes(b"\n".join(rows))
    [raw] = read(path)
    assert raw.columns.to_pylist() == [{"a": "😀"}, {"a": "\\ud83d"}]
    assert [rejection.row for rejection in raw.rejected] == [2, 3, 4]


MIXED = [
    *({"n": value} for value in (7, 7.0, "7", 1 << 70, True, None, [7], [], [1, 2], "x")),
    *({"t": value} for value in ([1, 2], ["1", 2.0], [[1], [2]], "1 2", [1], None)),
    {"c": "a"},
    {"c": 1.0},
    {"c": ["a", "b"]},
    {"c": {"deeper": 1}},
]
FEATURES = (
    Numeric(name="n", missing="mark"),
    Tensor(name="t", dimensions=(2,)),
    Categorical(name="c", missing="mark"),
)


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
def test_a_row_gives_the_same_whatever_rows_are_around_it(path: pathlib.Path, feature: Feature):
    path.write_text("\n".join(map(json.dumps, MIXED)))

    def parsed(batch_rows: int) -> list:
        rows = []
        for raw in read(path, batch_rows=batch_rows):
            column = parse(feature, raw.column(feature.name))
            bad = {row: bool(reason) for row, reason in column.problems.items()}
            found = column.values.to_pylist()
            ids = row_ids(raw, [each.name for each in FEATURES]).to_pylist()
            rows += [(ids[row], row in bad or found[row]) for row in range(len(found))]
        return rows

    assert parsed(batch_rows=1) == parsed(batch_rows=3) == parsed(batch_rows=1000)


@pytest.mark.parametrize("split_bytes", [1, 7, 30, 1000])
def test_cutting_a_file_changes_no_row(path: pathlib.Path, split_bytes: int):
    path.write_bytes(b"\n".join(b'{"n": %d}\r' % number for number in range(30)))
    assert values(read(path, split_bytes=split_bytes), Numeric(name="n")) == list(range(30))
