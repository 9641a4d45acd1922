"""A run on a window of spans is resumed, replayed after a move, and refused where a span changed."""

import dataclasses
import pathlib
import shutil

import pytest

from pipeline.base.errors import InputError
from pipeline.data.dataset.window import open_window
from pipeline.data.statistics import loading
from pipeline.training.replay.replay import Replay
from pipeline.training.run import run
from pipeline.training.run.request import Request
from pipeline.training.state import continuation, run_record
from tests.shared.parsed import parsed
from tests.shared.small_run import SCHEMA, rows, small_config
from tests.shared.tiny_dataset import write_dataset

pytestmark = pytest.mark.slow

DAYS = ((120, 20), (0, 10), (80, 0))  # rows of train and validation


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with `spans`, and `run`, which was stopped at step 5 and goes to 9: past half an epoch."""
    folder = tmp_path_factory.mktemp("spans")
    for day, (train, validation) in enumerate(DAYS):
        splits = {"train": rows(train, seed=day), "validation": rows(validation, seed=10 + day)}
        write_dataset(folder / "spans" / f"{day}", SCHEMA, splits, accumulators=True)
    for steps in (5, 9):
        run.train(request(folder, steps=steps))
    return folder


def request(folder: pathlib.Path, *, steps: int) -> Request:
    config = small_config()
    config.train.steps = steps
    return Request(
        experiment=parsed(config),
        dataset=open_window([f"{folder}/spans/*"]),
        workdir=folder / "run",
        strategy="one_device",
        precision="float32",
    )


def test_run_json_names_every_span_and_the_run_has_the_statistics_of_all(finished):
    record = run_record.read(finished / "run" / "run.json")
    window = open_window([f"{finished}/spans/*"])
    assert record.dataset_digest == window.manifest.digest
    assert record.datasets == tuple((str(each.directory), each.manifest.digest) for each in window.members)
    assert (finished / "run" / "statistics.pb").read_bytes() == loading.content(window)
    assert loading.of_training(window).examples == 200
    assert (record.steps, record.finished) == (9, True)


def test_the_report_tells_the_spans(finished):
    page = (finished / "run" / "report.html").read_text()
    assert "tiny of 3 datasets" in page
    assert "Datasets, in order: 3" in page
    assert str(finished / "spans" / "1") in page


@pytest.mark.slow
def test_a_step_is_replayed_where_the_spans_are_now(finished, tmp_path):
    before = Replay(finished / "run").step(4, examples=16)
    moved = shutil.copytree(finished / "spans", tmp_path / "elsewhere")
    (moved / "2").rename(tmp_path / "2")
    workdir = shutil.copytree(finished / "run", tmp_path / "run")
    (finished / "spans").rename(finished / "gone")
    try:
        with pytest.raises(InputError, match=r"spans/0: received no such directory.*--dataset=DIRECTORY"):
            Replay(workdir)
        after = Replay(workdir, moved_to=[tmp_path / "2", f"{moved}/*"]).step(4, examples=16)
    finally:
        (finished / "gone").rename(finished / "spans")
    assert after.losses.tolist() == before.losses.tolist()
    assert [each.record.number for each in after.examples] == [each.record.number for each in before.examples]


def test_a_span_that_changed_is_refused_by_its_name(finished):
    before = run_record.read(finished / "run" / "run.json")
    spans = [dict(span) for span in before.spans]
    changed = dataclasses.replace(
        before, dataset_digest="e" * 64, spans=(spans[0], {**spans[1], "digest": "f" * 64}, spans[2])
    )
    with pytest.raises(
        InputError, match=rf"dataset 2 of 3, .*spans/1: received digest ffff.*{'to continue'}"
    ):
        continuation.require_same(before, changed)


@pytest.mark.parametrize(("days", "told"), [(4, "received 4, with new; expected 3"), (2, "2, without .*/2;")])
def test_a_window_of_more_or_fewer_spans_is_refused(finished, days, told):
    before = run_record.read(finished / "run" / "run.json")
    spans = (*before.spans, {"directory": "new", "digest": "a" * 64})[:days]
    with pytest.raises(InputError, match=told):
        continuation.require_same(before, dataclasses.replace(before, dataset_digest="e" * 64, spans=spans))
