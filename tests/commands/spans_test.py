"""Spans that are converted one by one, and read as one, are the dataset of all their rows."""

import collections
import pathlib
import random
import shutil

import pytest

from beam_jobs.checks.dataset import verify
from beam_jobs.sources.csv import CsvFiles
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import select
from pipeline.data.dataset.window import open_window
from pipeline.data.origins.reader import raw_rows
from pipeline.data.reading import parsing, windows
from pipeline.data.schema.feature_types import Categorical, Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import accumulators, encoding, loading
from tests.shared.conversions import converted
from tests.shared.published import republish

SCHEMA = Schema(
    name="trips",
    features=(
        Numeric(name="id", number="int64"),
        Numeric(name="miles", missing="mark"),
        Categorical(name="payment", missing="mark"),
        Label(name="tip", classes=("small", "big")),
    ),
)
DAYS, EMPTY = 4, 2


def lines(day: int) -> list[str]:
    """Cells of a day's rows, of which one has none; the last ten are those of the day before, again."""
    if day == EMPTY:
        return []
    cells = ((day * 1000 + row, row % 7 / 10 or "", "cash" if row % 3 else "é") for row in range(60))
    rows = [f"{number},{miles},{payment},small" for number, miles, payment in cells]
    return rows + (lines(day - 1)[:10] if day else [])


@pytest.fixture(scope="module")
def spans(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """`span-0`, …, and `whole`: the same rows in one dataset. Samples are of fewer numbers than there are."""
    folder = tmp_path_factory.mktemp("spans")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accumulators, "SAMPLE_ROWS", 40)
        for name, days in [("whole", range(DAYS)), *((f"span-{day}", [day]) for day in range(DAYS))]:
            found = [line for day in days for line in lines(day)]
            text = "\n".join(["id,miles,payment,tip", *found, ""]) if found else ""
            (folder / f"{name}.csv").write_text(text)
            converted(
                str(folder / f"{name}.csv"),
                folder / name,
                source=CsvFiles(),
                schema=SCHEMA,
                may_be_empty=name == f"span-{EMPTY}",
            )
        yield folder


@pytest.fixture(scope="module")
def window(spans) -> Dataset:
    return open_window([f"{spans}/span-?"])


def ids(dataset: Dataset, split: str) -> list[int]:
    stored = windows.stored_rows(select(dataset, split))
    return [
        number
        for _, rows in stored
        for number in parsing.parse_rows(rows, dataset.schema)[0]["id"].numpy().ravel().tolist()
    ]


@pytest.mark.slow
def test_statistics_of_the_spans_are_those_of_all_rows_bit_for_bit(spans, window):
    assert loading.content(window) == (spans / "whole" / "statistics.pb").read_bytes()


@pytest.mark.slow
def test_every_row_is_in_the_split_that_it_is_in_as_part_of_the_whole(spans, window):
    whole = open_window([spans / "whole"])
    for split in ("train", "validation", "test"):
        assert collections.Counter(ids(window, split)) == collections.Counter(ids(whole, split))


def test_each_row_tells_the_file_of_its_span_and_the_line(spans, window):
    shards = window.shards("train")
    places = [(shard.path, row) for shard in shards for row in range(shard.rows)]
    found = raw_rows(window, random.Random(0).sample(places, len(places)))
    assert {raw.origin.file for raw in found} == {f"span-{day}.csv" for day in range(DAYS) if day != EMPTY}
    for raw in found:
        line = (spans / raw.origin.file).read_text().splitlines()[raw.origin.row - 1]
        assert raw.text == line


def test_verify_holds_the_accumulators_against_the_statistics(spans, tmp_path):
    copy = tmp_path / "span-1"
    shutil.copytree(spans / "span-1", copy)
    assert verify(copy).problems == ()
    other = (spans / "span-0" / encoding.FILE_NAME).read_bytes()
    republish(copy, {encoding.FILE_NAME: other})
    [problem] = verify(copy).problems
    assert (problem.file, problem.problem) == (
        "accumulators.bin",
        "gives other statistics than statistics.pb",
    )
