"""Splits and shard counts, decided before any row is read."""

import dataclasses
import pathlib
from fractions import Fraction

import pytest

from beam_jobs.conversion import plan
from beam_jobs.sources.csv import CsvFiles
from beam_jobs.sources.source import Input
from pipeline.base.errors import InputError
from pipeline.data.schema.feature_types import Numeric
from pipeline.data.schema.schema import Schema, SplitBy

SCHEMA = Schema(name="s", features=(Numeric(name="x"),))


def planned(*inputs: Input, splits: str = "", shard_bytes: int = 100) -> plan.Plan:
    fractions = plan.parse_fractions(splits) if splits else None
    return plan.make_plan(inputs, CsvFiles(), SCHEMA, fractions=fractions, shard_bytes=shard_bytes)


@pytest.fixture
def files(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "a.csv").write_bytes(b"x\n" + b"1\n" * 499)  # 1,000 bytes
    (tmp_path / "b.csv").write_bytes(b"x\n" + b"1\n" * 124)  # 250 bytes
    return tmp_path


def test_fractions_are_exact():
    fractions = plan.parse_fractions("train=0.8, validation=0.1,test=0.1")
    assert fractions == {"train": Fraction(4, 5), "validation": Fraction(1, 10), "test": Fraction(1, 10)}


def test_the_order_of_fractions_moves_no_row():
    assert list(plan.parse_fractions("other=0.2,test=0.2,train=0.6").items()) == [
        ("train", Fraction(3, 5)),
        ("test", Fraction(1, 5)),
        ("other", Fraction(1, 5)),
    ]


@pytest.mark.parametrize(
    "text", ["train=0.8", "train=0.5,train=0.5", "train", "train=x", "train=1.5,test=-0.5", "Tr-n=1", ""]
)
def test_other_fractions_are_refused(text: str):
    with pytest.raises(InputError, match="--splits: received"):
        plan.parse_fractions(text)


def test_shards_follow_from_bytes(files: pathlib.Path):
    given = Input(location=str(files / "a.csv")), Input(location=str(files / "b.csv"), split="extra")
    assert planned(*given).shards == {"train": 8, "validation": 1, "test": 1, "extra": 3}


def test_fractions_are_neither_used_nor_taken_where_all_inputs_are_pinned(files: pathlib.Path):
    given = (
        Input(location=str(files / "b.csv"), split="test"),
        Input(location=str(files / "a.csv"), split="train"),
    )
    assert list(planned(*given).shards) == ["train", "test"]
    assert planned(*given).fractions == {}
    with pytest.raises(InputError, match="--splits: received fractions of a, b beside inputs that all name"):
        planned(*given, splits="a=0.5,b=0.5")


def test_the_fingerprint_does_not_depend_on_paths_or_their_order(files: pathlib.Path, tmp_path: pathlib.Path):
    one = Input(location=str(files / "a.csv")), Input(location=str(files / "b.csv"))
    both = Input(location=f"{files}/*.csv")
    assert planned(*one).fingerprint == planned(*reversed(one)).fingerprint == planned(both).fingerprint
    assert planned(both).fingerprint != planned(both, splits="train=0.9,test=0.1").fingerprint


def test_no_file_is_in_two_inputs(files: pathlib.Path):
    with pytest.raises(InputError, match=r"b\.csv: received a file that two --input flags name"):
        planned(Input(location=f"{files}/*.csv"), Input(location=f"{files}/b.csv", split="test"))


def test_a_split_needs_a_plain_name():
    with pytest.raises(InputError, match="split 'Ärger'"):
        plan.check_split_names([Input(location="x", split="Ärger")])


def by(files: pathlib.Path, split_by: SplitBy, *, split: str = "", splits: str = "") -> plan.Plan:
    schema = dataclasses.replace(SCHEMA, split_by=split_by)
    fractions = plan.parse_fractions(splits) if splits else None
    inputs = [Input(location=str(files / "a.csv"), split=split)]
    return plan.make_plan(inputs, CsvFiles(), schema, fractions=fractions, shard_bytes=100)


def test_cut_offs_of_the_schema_name_the_splits(files: pathlib.Path):
    cut = SplitBy(columns=("x",), first="past", starts={"now": 1, "future": 2})
    planned = by(files, cut)
    assert (planned.unpinned, planned.fractions, planned.pinned) == (("past", "now", "future"), {}, ())
    assert sum(planned.shards.values()) == 12
    with pytest.raises(InputError, match="--splits: received fractions of a, b; expected none"):
        by(files, cut, splits="a=0.5,b=0.5")


def test_a_pinned_input_is_refused_where_the_schema_splits(files: pathlib.Path):
    with pytest.raises(InputError, match="--input: received inputs that are pinned to test"):
        by(files, SplitBy(columns=("x",)), split="test")
