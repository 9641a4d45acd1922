"""Records of a step: sound or not, their features as they were written, and their raw rows."""

import pathlib
import shutil

import numpy as np
import pytest

from beam_jobs.sources.formats import open_source
from pipeline.base.errors import InputError
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.origins import reader
from pipeline.data.reading.plan import Mixture, Part
from pipeline.data.schema.feature_types import Categorical, Datetime, Label, Numeric, Tensor, Tokens
from pipeline.data.schema.schema import Schema
from pipeline.training.replay.stream import origins_of, payload, raw_features, records_of, require_sound
from tests.shared.conversions import converted
from tests.shared.small_run import write_small_dataset
from tests.shared.tiny_dataset import write_dataset


@pytest.fixture(params=["rows", "blocks"])
def selection(request, tmp_path) -> Selection:
    """Of 200 rows in two shards."""
    return select(write_small_dataset(tmp_path / "data", layout=request.param), "train")


def records(selection: Selection, numbers: list[int]):
    pairs = np.array([(0, number) for number in numbers])
    return records_of(selection, np.arange(len(numbers)), pairs)


def test_a_changed_byte_is_found_in_its_record_alone(selection):
    before, after = records(selection, [3, 150])  # of the first shard, and of the second
    shard = selection.dataset.directory / after.file
    data = shard.read_bytes()
    at = data.index(payload(selection, after)) + 40
    shard.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    require_sound(selection, [before])
    with pytest.raises(InputError, match=rf"damaged record: {after.file}, record {after.ordinal:,} at byte"):
        require_sound(selection, [before, after])


def test_a_file_that_was_cut_is_named(selection):
    (record,) = records(selection, [150])
    shard = selection.dataset.directory / record.file
    shard.write_bytes(shard.read_bytes()[:20])
    with pytest.raises(InputError, match=rf"damaged record: {record.file}, record {record.ordinal:,} at"):
        require_sound(selection, [record])


KINDS = Schema(
    name="kinds",
    features=(
        Numeric(name="number"),
        Numeric(name="whole", number="int64"),
        Categorical(name="id", encoding="integer", size=70_000),
        Tokens(name="words", length=3, vocabulary_size=70_000),
        Tensor(name="matrix", dimensions=(2, 2)),
        Datetime(name="when"),
        Label(name="label", classes=("no", "yes")),
    ),
)


def example(number: int) -> dict[str, object]:
    return {
        "number": number / 4,
        "whole": (1 << 60) + number,
        "id": 69_000 + number,
        "words": [number, 65_536 + number, 0],
        "matrix": [number + 0.5, -1.0, 0.0, 1e30],
        "when": 1_700_000_000_000_000 + number,
        "label": number % 2,
    }


@pytest.mark.parametrize("layout", ["rows", "blocks"])
def test_features_are_those_that_were_written(tmp_path, layout):
    examples = [example(number) for number in range(20)]
    selection = select(write_dataset(tmp_path / "data", KINDS, {"train": examples}, layout=layout), "train")
    chosen = [13, 0, 7, 19]
    records = records_of(selection, np.arange(4), np.array([(0, number) for number in chosen]))
    for number, features in zip(chosen, raw_features(selection, records), strict=True):
        assert set(features) == set(examples[number])
        for name, written in examples[number].items():
            np.testing.assert_array_equal(features[name].ravel(), np.asarray(written, features[name].dtype))


NUMBERS = Schema(name="numbers", features=(Numeric(name="number", number="int64"),))
ROWS = 1500


@pytest.mark.parametrize("layout", ["rows", "blocks"])
@pytest.mark.slow
def test_each_record_of_a_mixture_has_the_raw_row_of_its_part(tmp_path: pathlib.Path, layout: str):
    parts = []
    for first in (0, ROWS):
        raw = tmp_path / f"from {first}.csv"
        raw.write_text("number\n" + "".join(f"{first + row}\n" for row in range(ROWS)))
        dataset = converted(
            str(raw),
            tmp_path / f"{first}",
            source=open_source("csv"),
            schema=NUMBERS,
            layout=layout,
            shard_bytes=1 << 20,
        )
        parts.append(Part(selection=select(dataset, "train"), weight=1.0))
    data = Mixture(parts=tuple(parts))
    numbers = np.array([[part, row] for row in range(0, 1150, 7) for part in (0, 1)])
    records = records_of(data, np.arange(len(numbers)), numbers)
    found = origins_of(data, records)
    for stored, raw in zip(raw_features(data, records), found, strict=True):
        assert raw.text == str(stored["number"])
        assert str(raw) == f"from {stored['number'] // ROWS * ROWS}.csv line {2 + stored['number'] % ROWS:,}"
    shutil.rmtree(parts[1].selection.dataset.directory / reader.FOLDER)
    (tmp_path / "from 0.csv").unlink()
    without = origins_of(data, records)
    assert [raw and str(raw) for raw in without[0::2]] == [str(raw) for raw in found[0::2]]
    assert {raw.text for raw in without[0::2]} == {None}
    assert set(without[1::2]) == {None}
