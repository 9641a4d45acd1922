"""Recommenders and language models are retrained, too: a good model is promoted, a spoiled one is not."""

import csv
import json
import pathlib
import subprocess
from collections.abc import Callable

import numpy as np
import pytest
from ml_collections import ConfigDict

from pipeline.data.dataset.manifest import FILE_NAME, open_dataset
from pipeline.exporting import scoring
from pipeline.retraining import records
from tests.shared import small_spans
from tests.shared.fixtures.schedules import Schedule, small_config

TASTES, ITEMS = 4, [f"item {number}" for number in range(24)]
WORDS = ("ba", "du", "fi", "go", "ke", "lu", "mi")


def write_choices(folder: pathlib.Path, draw: np.random.Generator) -> None:
    """Each shopper has a taste, which they mostly follow."""
    shoppers = draw.integers(0, 30, 1200)
    chosen = np.where(
        draw.random(1200) < 0.8,
        shoppers % TASTES + TASTES * draw.integers(0, 6, 1200),
        draw.integers(0, 24, 1200),
    )
    rows = [
        {"shopper": f"s{shopper}", "minute": int(draw.integers(1440)), "item": ITEMS[item]}
        for shopper, item in zip(shoppers, chosen, strict=True)
    ]
    (folder / "choices.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def write_visits(folder: pathlib.Path, draw: np.random.Generator) -> None:
    """The relevance of an offer follows from its price and its kind."""
    with (folder / "visits.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["visit", "price", "kind", "relevance"])
        for visit in range(400):
            for _ in range(draw.integers(1, 7)):
                price, kind = draw.normal(), draw.choice(["a", "b"])
                useful = -2 * price + (kind == "b") + 0.5 * draw.normal()
                writer.writerow([f"v{visit}", f"{price:.4f}", kind, int(np.clip(useful, 0, 3))])


def write_texts(folder: pathlib.Path, draw: np.random.Generator) -> None:
    lines = (" ".join(draw.choice(WORDS, draw.integers(4, 12))) for _ in range(700))
    (folder / "texts.txt").write_text("".join(f"{line}\n" for line in lines))


TOKENS = ("--tokenizer=bytes", "--sequence_length=32")
CASES = {
    "retrieval": (
        write_choices,
        ("--label=item", "--task=retrieval"),
        "retrieval.py",
        ("--config.train.steps=150", "--config.optimizer.learning_rate=0.01", "--config.global_batch=64"),
    ),
    "ranking": (
        write_visits,
        ("--label=relevance", "--group=visit"),
        "ranking.py",
        ("--config.train.steps=60", "--config.model.members=2", "--config.global_batch=32"),
    ),
    "next_token": (
        write_texts,
        TOKENS,
        "language_model.py",
        (
            *("--config.model.width=16", "--config.model.heads=2", "--config.model.depth=1"),
            *("--config.train.steps=80", "--config.train.epochs=9"),
        ),
    ),
}


def config_of(task: str) -> ConfigDict:
    config = small_config()
    config.train.config = f"pipeline/configs/{CASES[task][2]}"
    config.train.flags = ("--strategy=one_device", "--precision=mixed_bfloat16", *CASES[task][3])
    config.spans.convert = TOKENS if task == "next_token" else ()
    return config


@pytest.fixture
def started(
    warm_python: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Schedule]:
    """A root with two spans of a task, and the schema of the first."""
    monkeypatch.setattr("sys.executable", str(warm_python))

    def start(task: str) -> Schedule:
        schedule = Schedule(path=tmp_path / "root", config=config_of(task))
        for number in range(2):
            folder = small_spans.folder(schedule.path, small_spans.day(number))
            folder.mkdir(parents=True)
            CASES[task][0](folder, np.random.default_rng(number))
        first = small_spans.folder(schedule.path, small_spans.day(0))
        infer = [f"--input={first}", *CASES[task][1], f"--output={schedule.path / 'schema.json'}"]
        subprocess.run([warm_python, "-m", "beam_jobs.infer_schema", *infer], check=True)
        return schedule

    return start


@pytest.mark.slow
@pytest.mark.parametrize("task", CASES)
def test_a_good_model_is_promoted_and_a_spoiled_one_is_not(task: str, started: Callable[[str], Schedule]):
    schedule = started(task)
    first = schedule.reconcile()
    assert (first.decision, schedule.versions) == ("PROMOTE", [1]), first
    (cycle,) = schedule.cycles
    gate = records.read_result(cycle.folder / "decide.json")["gate"]
    assert (gate["task"], gate["is_first"]) == (task, True)
    # What the gate measures is what an evaluation of the export does.
    dataset = open_dataset(next((schedule.path / "spans" / small_spans.day(1)).glob(f"*/{FILE_NAME}")).parent)
    split = "+".join(split for split in dataset.manifest.splits if dataset.rows(split))
    told = scoring.score(cycle.folder / "export", dataset, split=split, batch=100)
    for metric in gate["metrics"]:
        name = "loss" if metric["name"] == "log_loss" else metric["name"]
        assert metric["values"]["challenger"]["value"] == pytest.approx(told[name], rel=1e-5), name

    spoiled = [flag for flag in schedule.config.train.flags if "train.steps" not in flag]
    schedule.config.train.flags = (*spoiled, "--config.train.steps=1")
    second = schedule.later(hours=1).reconcile()
    assert (second.decision, schedule.versions) == ("REJECT", [1]), second
