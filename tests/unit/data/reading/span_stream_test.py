"""A window of spans is read as one dataset is: every row once an epoch, from any position, on any hosts."""

import itertools
import pathlib
import random
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.dataset.window import open_window
from tests.shared.matrix import quick_cases
from tests.shared.tiny_dataset import write_dataset
from tests.unit.data.reading.id_stream import BATCH, SCHEMA, ids

SIZES = {"rows": (70, 0, 1, 110, 33, 46), "blocks": (110, 0, 1, 1_100, 29)}  # rows of the spans


def publish(directory: pathlib.Path, layout: str, sizes: Sequence[int]) -> tuple[Dataset, Dataset]:
    """A window of spans of so many rows, and one dataset that has the same rows in the same order."""
    numbers = np.random.default_rng(0).permutation(sum(sizes)).tolist()
    rows = [{"id": number, "y": number % 2} for number in numbers]
    ends = itertools.accumulate(sizes, initial=0)
    for day, (first, end) in enumerate(itertools.pairwise(ends)):
        write_dataset(
            directory / f"day={day}", SCHEMA, {"train": rows[first:end]}, shards=1 + day % 2, layout=layout
        )
    return open_window([f"{directory}/day=*"]), write_dataset(
        directory / "whole", SCHEMA, {"train": rows}, layout=layout
    )


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Dataset, Dataset]]]:
    directory = tmp_path_factory.mktemp("spans")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("PART_RECORDS", 7), ("WINDOW_ROWS", 300), ("WINDOW_PARTS", 2)):
            patch.setattr(f"pipeline.data.reading.window_parts.{name}", value)
        yield {layout: publish(directory / layout, layout, sizes) for layout, sizes in SIZES.items()}


def ledger(selection: Selection, way: str, *, stops: Sequence[int], hosts: Sequence[int]) -> list[int]:
    """The ids that a run reads which stops at these steps, and goes on with so many hosts from each."""
    return [
        number
        for (start, stop), count in zip(itertools.pairwise(stops), hosts, strict=True)
        for number in ids(selection, way, position=start * BATCH, steps=stop - start, hosts=count)
    ]


def check_ledger(found: Sequence[int], rows: int) -> None:
    """Raises AssertionError unless each epoch has every id, none is lost, and none repeated."""
    epochs = [found[start : start + rows] for start in range(0, len(found), rows)]
    assert [sorted(epoch) for epoch in epochs[:-1]] == [list(range(rows))] * (len(epochs) - 1)
    assert len(set(epochs[-1])) == len(epochs[-1])


@pytest.mark.parametrize(
    ("way", "layout", "hosts"),
    quick_cases(
        [
            *(("windows", "rows", hosts) for hosts in ((2, 1), (1, 2, 1, 1))),
            *((way, "blocks", (1, 2, 1, 1)) for way in ("windows", "mapped")),
        ],
        [("windows", "rows", (2, 1))],
    ),
)
@pytest.mark.slow
def test_a_ledger_over_spans_resumes_and_changing_hosts(published, way: str, layout: str, hosts: tuple):
    part, rows = select(published[layout][0], "train"), sum(SIZES[layout])
    end = int(2.2 * rows / BATCH)
    stops = [0, *sorted(random.Random(way + layout).sample(range(1, end), len(hosts) - 1)), end]
    check_ledger(ledger(part, way, stops=stops, hosts=hosts), rows)


def test_the_order_is_that_of_one_dataset_of_the_same_rows(published):
    """Which file a row is in changes nothing."""
    window, whole = (select(each, "train") for each in published["rows"])
    assert ids(window, "windows", steps=20) == ids(whole, "windows", steps=20)
