"""A row whose loss is infinite: the run names it and stops, or goes on without its step, or behind it."""

import json
import pathlib
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.configs import tabular
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import select
from pipeline.data.origins.files import Origin
from pipeline.data.origins.reader import RawRow
from pipeline.data.reading import parsing, stream
from pipeline.data.reading.plan import plan_reading
from pipeline.data.reading.sharding import Share
from pipeline.data.schema.feature_types import Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.training.replay.stream import Record
from pipeline.training.run import run
from pipeline.training.run.attribution import described
from pipeline.training.run.request import Request
from pipeline.training.state import workdir as files
from tests.shared.parsed import parsed
from tests.shared.small_run import small_config
from tests.shared.tiny_dataset import write_dataset

SCHEMA = Schema(name="bad", features=(Numeric(name="x"), Label(name="y", task="regression")))
ROWS, BATCH = 200, 16
TOO_LARGE = 1e30  # whose square is infinite in float32


def rows(count: int, *, seed: int) -> list[dict]:
    return [{"x": x, "y": 2 * x} for x in np.random.default_rng(seed).normal(size=count).tolist()]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    train = rows(ROWS, seed=0)
    train[100]["y"] = TOO_LARGE
    splits = {"train": train, "validation": rows(20, seed=1), "test": rows(20, seed=2)}
    return write_dataset(tmp_path_factory.mktemp("bad") / "1.0.0", SCHEMA, splits)


def request(dataset: Dataset, workdir: pathlib.Path, policy: str, *, strategy: str = "one_device") -> Request:
    config = small_config()
    config.train.epochs = 2.0
    config.evaluation.split = ""
    config.train.standardise_labels = False  # or such a label makes the loss of every example infinite
    config.optimizer.learning_rate = 0.1
    config.train.on_bad_step = policy
    return Request(
        experiment=parsed(config), dataset=dataset, workdir=workdir, strategy=strategy, precision="float32"
    )


def bad_steps(dataset: Dataset) -> list[int]:
    """The step of the row in each epoch, by reading the whole stream."""
    plan = plan_reading(select(dataset, "train"), share=Share(global_batch=BATCH), seed=0)
    labels: list[float] = []
    for _, records in stream.read(plan).as_numpy_iterator():
        labels += parsing.parse_rows(records, SCHEMA)[1].numpy().tolist()
        if len(labels) >= 2 * ROWS:
            break
    found = np.flatnonzero(np.asarray(labels[: 2 * ROWS]) > 1e29)
    return (found // BATCH).tolist()


def stored_at(dataset: Dataset) -> str:
    """File and number of the row's record, by reading the files."""
    for path in sorted(dataset.directory.glob("*-train.tfrecord-*")):
        for number, record in enumerate(tf.data.TFRecordDataset(str(path)).as_numpy_iterator()):
            if tf.train.Example.FromString(record).features.feature["y"].float_list.value[0] > 1e29:
                return f"{path.name}, record {number:,}"
    raise AssertionError("the row is not there")


def history(workdir: pathlib.Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (workdir / "history.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def skipped(dataset, tmp_path_factory) -> pathlib.Path:
    """A run that skipped the row's steps, and that nothing else happened to."""
    workdir = tmp_path_factory.mktemp("skipped")
    run.train(request(dataset, workdir, "skip"))
    return workdir


@pytest.mark.slow
def test_stop_names_the_record(dataset, tmp_path):
    step, _ = bad_steps(dataset)
    message = rf"^step {step}: received .*not finite: {stored_at(dataset)} \(replica 0\) has a loss of inf; "
    with pytest.raises(InputError, match=message + r".*of step 6, is from before\. .*on_bad_step=skip\.$"):
        run.train(request(dataset, tmp_path, "stop"))


@pytest.mark.slow
def test_a_stopped_run_that_is_told_to_skip_goes_on_as_if_it_always_had(dataset, tmp_path, skipped):
    step, second = bad_steps(dataset)
    with pytest.raises(InputError, match=f"^step {step}"):
        run.train(request(dataset, tmp_path, "stop"))
    metrics = run.train(request(dataset, tmp_path, "skip"))
    assert metrics == files.read_json(skipped / "evaluation.json")
    assert history(tmp_path) == history(skipped)
    events = [{"step": step, "did": "skipped"}, {"step": second, "did": "skipped"}]
    for workdir in (tmp_path, skipped):
        assert files.read_json(workdir / "run.json")["bad_steps"] == events
    assert metrics["r2"] > 0.5


@pytest.mark.slow
def test_a_run_that_is_rolled_back_learns_and_says_so(dataset, tmp_path, capsys):
    step, second = bad_steps(dataset)
    assert run.train(request(dataset, tmp_path, "roll_back"))["r2"] > 0.5
    events = files.read_json(tmp_path / "run.json")["bad_steps"]
    assert [(event["step"], event["to"]) for event in events] == [(step, 6), (second, second // 6 * 6)]
    told = f"the batch of step 10: step {step}, a loss or gradient that is not finite: {stored_at(dataset)}"
    assert told in capsys.readouterr().out


@pytest.mark.slow
def test_two_workers_roll_back_to_the_checkpoint_that_one_takes(dataset, tmp_path, warm_python, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(warm_python))
    changes = {"global_batch": BATCH, "train.steps": 14, "train.steps_per_loop": 4}
    changes |= {"train.checkpoint_every_steps": 6, "train.on_bad_step": "roll_back", "evaluation.split": ""}
    changes |= {"train.standardise_labels": False, "model.dropout": 0.0}
    config = tabular.get_config()
    config.update_from_flattened_dict(changes)
    one = {"strategy": "one_device", "precision": "float32"}
    alone = run.train(
        Request(experiment=parsed(config, dataset), dataset=dataset, workdir=tmp_path / "1", **one)
    )
    told = ("--config=pipeline/configs/tabular.py", f"--dataset={dataset.directory}", "--precision=float32")
    where = (f"--workdir={tmp_path / '2'}", f"--json={tmp_path / '2.json'}", "--workers=2")
    overridden = [f"--config.{key}={value}" for key, value in changes.items()]
    subprocess.run([sys.executable, "-m", "pipeline.train", *told, *where, *overridden], check=True)
    events = [files.read_json(tmp_path / name / "run.json")["bad_steps"] for name in ("1", "2")]
    assert events == [[{"step": bad_steps(dataset)[0], "did": "rolled back", "to": 6, "until": 12}]] * 2
    assert files.read_json(tmp_path / "2.json")["loss"] == pytest.approx(alone["loss"], rel=1e-4)


def records(count: int) -> list[Record]:
    """Records 100, 101, … of a file."""
    same = {"epoch": 0, "dataset": "d", "split": "train", "file": "a", "row": None, "part": 0, "number": 0}
    return [Record(position=index, ordinal=100 + index, **same) for index in range(count)]


def unknown(some: Sequence[Record]) -> list[None]:
    return [None] * len(some)


def raw_lines(some: Sequence[Record]) -> list[RawRow]:
    return [RawRow(origin=Origin("a.csv", each.ordinal), folder="/", is_line=True, text="x") for each in some]


def test_the_blame_names_replicas_and_at_most_three_records():
    losses = np.full(16, 0.5)
    losses[[3, 8, 9, 15]] = np.nan
    blame = described(losses, records(16), replicas=2, origins=unknown)
    assert blame.is_certain
    assert blame.text.startswith("a, record 103 (replica 0) has a loss of nan; a, record 108 (replica 1)")
    assert blame.text.endswith("a, record 109 (replica 1) has a loss of nan and 1 more")


def test_the_blame_tells_the_weight_of_an_example():
    losses, weights = np.array([0.5, np.inf]), np.array([1.0, 1e30])
    blame = described(losses, records(2), replicas=1, origins=unknown, weights=weights)
    assert blame.text == "a, record 101 (replica 0) has a loss of inf at a weight of 1e+30"


def test_the_blame_names_what_an_example_is_mixed_with():
    losses, shares = np.array([0.5, 0.5, np.inf, 0.7]), np.array([0.9, 0.9, 0.75, 0.75])
    blame = described(losses, records(4), replicas=2, origins=unknown, shares=shares)
    found = "a, record 102 (replica 1) has a loss of inf, mixed with 25.0% of a, record 103"
    assert blame.text == found
    weights = np.array([1.0, 1.0, 3.0, 1e30])
    blame = described(losses, records(4), replicas=2, origins=raw_lines, shares=shares, weights=weights)
    assert blame.text == (
        "a, record 102 (replica 1; raw row a.csv line 102: x) has a loss of inf at a weight of 3, "
        "mixed with 25.0% of a, record 103 (raw row a.csv line 103: x) at a weight of 1e+30"
    )


def test_weights_that_went_there_blame_no_record():
    blame = described(np.array([0.5, 2.5, 1.0, 0.0]), records(4), replicas=1, origins=unknown)
    assert not blame.is_certain
    assert "no record is at fault by itself; a, record 101 (replica 0) has a loss of 2.5, the l" in blame.text


def test_the_blame_tells_the_raw_row_in_short():
    losses = np.array([0.5, np.nan])

    def raw(some: Sequence[Record]) -> list[RawRow]:
        origin = Origin("a.csv", some[0].ordinal)
        return [RawRow(origin=origin, folder="/", is_line=True, text="x,inf," + 9000 * "y")]

    blame = described(losses, records(2), replicas=1, origins=raw)
    assert "(replica 0; raw row a.csv line 101: x,inf,yyy" in blame.text
    assert len(blame.text) < 300


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_where_every_example_is_infinite_none_is_at_fault(value):
    blame = described(np.full(16, value), records(16), replicas=2, origins=unknown)
    assert blame.text.startswith(
        "all 16 records have no finite loss: the weights are the cause, or a label is extreme; "
    )
    assert not blame.is_certain
    assert described(np.array([value]), records(1), replicas=1, origins=unknown).is_certain
