"""The folders of `examples/`: short enough to copy, and their commands give what their titles promise."""

import csv
import json
import pathlib
from collections.abc import Callable

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.house.docs import commands, documents

FOLDER = documents.ROOT / "examples"
MOST_LINES = 60


def evaluated(run: pathlib.Path) -> dict[str, float]:
    return json.loads((run / "evaluation.json").read_text())


def costs_are_known_but_for_chance(build: pathlib.Path) -> None:
    assert evaluated(build / "delivering")["rmse"] < 1.5  # that of chance is 0.5, that of the mean 14
    assert (build / "deliverer/1/saved_model.pb").exists()


def arrows_are_told_apart(build: pathlib.Path) -> None:
    assert evaluated(build / "arrow_run")["accuracy"] > 0.9
    assert (build / "arrow_model/1/saved_model.pb").exists()


def what_the_model_doubts_is_mostly_planted(build: pathlib.Path) -> None:
    """A phrase of each message decides its desk; one row in twenty says another one, and should not count."""
    named = {"paid": "bills", "invoice": "bills", "refund": "bills", "start": "repairs", "broken": "repairs"}
    named |= {"smoke": "repairs", "cost": "sales", "stock": "sales", "abroad": "sales"}
    said = {row["message"]: row["class"] for row in pq.read_table(build / "mail_answers").to_pylist()}
    rows = list(csv.DictReader((build / "mail.csv").read_text().splitlines()))
    right = [next(desk for word, desk in named.items() if word in row["message"]) for row in rows]
    assert np.mean([row["desk"] == desk for row, desk in zip(rows, right, strict=True)]) < 0.99
    assert np.mean([said[row["message"]] == desk for row, desk in zip(rows, right, strict=True)]) > 0.99


def next_letters_are_mostly_known(build: pathlib.Path) -> None:
    assert evaluated(build / "cooking")["accuracy"] > 0.7  # the blank, the most frequent, has a sixth


def the_next_volume_is_mostly_the_first(build: pathlib.Path) -> None:
    assert evaluated(build / "lending")["recall_at_1"] > 0.5  # six in seven loans are the next volume


def the_first_model_is_served(build: pathlib.Path) -> None:
    [version] = (build / "canteen/serving/canteen").glob("[0-9]*")
    assert version.name == "1"
    acts = [json.loads(line) for line in (build / "canteen/audit.jsonl").read_text().splitlines()]
    assert [each["version"] for each in acts if each["act"] == "published"] == [1]


HOLDS: dict[str, Callable[[pathlib.Path], None]] = {
    "images": arrows_are_told_apart,
    "language_model": next_letters_are_mostly_known,
    "recommendation": the_next_volume_is_mostly_the_first,
    "retraining": the_first_model_is_served,
    "tabular": costs_are_known_but_for_chance,
    "text": what_the_model_doubts_is_mostly_planted,
}


def test_each_folder_is_short_and_has_a_test():
    folders = {path.name: path for path in FOLDER.iterdir() if path.is_dir()}
    assert sorted(folders) == sorted(HOLDS)
    lines = {name: sum(_lines(path) for path in folder.iterdir()) for name, folder in folders.items()}
    assert max(lines.values()) <= MOST_LINES, lines


@pytest.mark.slow
@pytest.mark.parametrize("name", HOLDS)
def test_its_commands_give_what_its_title_promises(
    name: str, tmp_path: pathlib.Path, warm_python: pathlib.Path
):
    commands.copy_tree(tmp_path)
    blocks = documents.blocks(f"examples/{name}/README.md")
    assert not (wrong := commands.failure(blocks, tmp_path, python=warm_python)), wrong
    HOLDS[name](tmp_path / "build")


def _lines(path: pathlib.Path) -> int:
    return len(path.read_text().splitlines()) if path.is_file() else 0
