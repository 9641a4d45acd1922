"""What --config.shuffle comes to, by the layout and the size of the records."""

import dataclasses
import pathlib
import typing

import pytest

from pipeline.base.errors import InputError
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.reading import positions
from pipeline.data.reading.plan import Mixture, Part, ReadPlan, plan_reading
from pipeline.data.reading.positions import SHUFFLES, WayName
from pipeline.data.reading.sharding import Share
from pipeline.data.reading.stream import WAYS
from tests.unit.data.reading.id_stream import write

SHARE = Share(global_batch=8)


def selection(directory: pathlib.Path, layout: str = "rows") -> Selection:
    return select(write(directory, range(10), layout=layout), "train")


def plan(data: Selection | Mixture, shuffle: str) -> ReadPlan:
    return plan_reading(data, share=SHARE, seed=1, shuffle=shuffle)


def test_every_way_that_a_plan_can_name_is_in_the_table():
    assert set(WAYS) == set(typing.get_args(WayName))


@pytest.mark.parametrize(
    ("layout", "shuffle", "way"),
    [
        ("rows", "auto", "windows"),
        ("rows", "global", "single"),
        ("rows", "windows", "windows"),
        ("blocks", "auto", "mapped"),
        ("blocks", "global", "mapped"),
        ("blocks", "windows", "windows"),
    ],
)
def test_small_records(tmp_path, layout: str, shuffle: str, way: str):
    assert plan(selection(tmp_path / "1", layout), shuffle).ways == (way,)
    assert layout in WAYS[way].layouts


def test_large_records_are_read_one_by_one(tmp_path, monkeypatch):
    monkeypatch.setattr(positions, "SINGLE_RECORD_BYTES", 10)
    ways = {shuffle: plan(selection(tmp_path / shuffle), shuffle).ways for shuffle in SHUFFLES}
    assert ways == {"auto": ("single",), "global": ("single",), "windows": ("windows",)}


def test_each_part_of_a_mixture_has_a_way(tmp_path):
    parts = tuple(Part(selection=selection(tmp_path / name), weight=1.0) for name in ("a", "b"))
    assert plan(Mixture(parts=parts), "global").ways == ("single", "single")


def test_a_part_is_read_in_its_own_way(tmp_path):
    parts = tuple(Part(selection=selection(tmp_path / name), weight=1.0) for name in ("a", "b"))
    mixed = dataclasses.replace(plan(Mixture(parts=parts), "auto"), ways=("windows", "single"))
    second = mixed.of_part(1, seed=5, position=40, share=SHARE)
    assert (second.data, second.ways) == (parts[1].selection, ("single",))
    assert (second.seed, second.position, second.share) == (5, 40, SHARE)


def test_a_service_gets_its_turns_of_the_same_plan(tmp_path):
    whole = plan(selection(tmp_path / "1"), "auto")
    second = whole.of_service(1, count=3)
    assert (second.share.service_index, second.share.service_count) == (1, 3)
    assert second.of_service(0, count=1) == whole


def test_an_unknown_shuffle_is_refused(tmp_path):
    with pytest.raises(InputError, match="received some; expected 'auto', 'global' or 'windows'"):
        plan(selection(tmp_path / "1"), "some")
