"""Searches whose trials are planted curves: what is chosen, what ends early, what a killed one keeps."""

import dataclasses
import json
import math
import pathlib
from collections.abc import Callable, Mapping

import pytest

from pipeline.base.cli.signals import Interrupted
from pipeline.base.errors import InputError
from pipeline.training.launch import child, search, search_page, space, sweep
from pipeline.training.launch.search_page import Outcome
from pipeline.training.launch.space import Range
from pipeline.training.state import run_record, workdir

RATE = "config.optimizer.learning_rate=log(1e-4..1e-1);config.model.hidden=(8,),(16,)"
CONFIG = {"optimizer": {"learning_rate": 1e-3}, "model": {"hidden": [8], "units": 3, "is_wide": True}}
STEPS, EVERY = 100, 5


@dataclasses.dataclass(frozen=True)
class Record:
    """What a search reads of a run.json."""

    total_steps: int = STEPS
    seconds: float = 1.0


def loss(values: Mapping[str, str], step: int) -> float:
    """A curve whose place at the end is its place all along: the best rate is 1e-2, and 16 units help."""
    distance = abs(math.log10(float(values["optimizer.learning_rate"])) + 2)
    return distance + (0.5 if values["model.hidden"] == "(8,)" else 0.0) + 1.0 / step


@pytest.fixture
def trained(monkeypatch) -> list[str]:
    """Makes runs planted curves; names of the trials, in the order in which they trained."""
    names: list[str] = []

    def train(trial: sweep.Trial, command, *, came: Callable, is_enough: Callable) -> int:
        names.append(trial.point.name)
        trial.workdir.path.mkdir(exist_ok=True)
        for step in range(EVERY, STEPS + 1, EVERY):
            found = loss(trial.point.values, step)
            workdir.append_history(trial.workdir.history, {"step": step, "validation": {"loss": found}})
            if is_enough():
                return 143
        final = {"step": STEPS, "split": "test", "loss": 1234.5678}
        trial.workdir.evaluation.write_text(json.dumps(final))
        return 0

    monkeypatch.setattr(sweep.Trial, "train", train)
    monkeypatch.setattr(sweep.Trial, "is_finished", lambda trial, **_: trial.workdir.evaluation.exists())
    monkeypatch.setattr(run_record, "read", lambda path: Record() if path.parent.exists() else None)
    return names


def ran(
    root: pathlib.Path, *, trials: int, text: str = RATE, number: str = "val_loss", sign: int = 1
) -> list[dict]:
    searched = search.Search(
        space=space.space(text, config=CONFIG), config=CONFIG, digest="d", number=number, sign=sign
    )
    search.run(
        searched,
        trials=trials,
        config_of=lambda point: dict(point.values),
        root=root,
        command=["pipeline.train"],
    )
    return [json.loads(line) for line in (root / search.RECORDS).read_text().splitlines()]


def test_it_finds_the_planted_best_and_ends_poor_trials_early(tmp_path, trained):
    records = ran(tmp_path / "s", trials=25)
    finished = [each for each in records if each["value"] is not None]
    best = min(finished, key=lambda each: loss(each["values"], STEPS))
    assert best["value"] == min(each["value"] for each in finished)
    assert best["values"]["model.hidden"] == "(16,)"
    assert 10**-2.3 < float(best["values"]["optimizer.learning_rate"]) < 10**-1.7
    # The rule of successive halving, computed anew: at 10 and 30 percent, the best third so far goes on.
    reached: dict[int, list[float]] = {10: [], 30: []}
    for each in records:
        ended = 0
        for rung, values in reached.items():
            values.append(loss(each["values"], rung))
            if values[-1] > sorted(values)[max(len(values) // 3, 1) - 1]:
                ended = rung
                break
        assert each["ended_at"] == ended, each["name"]
    assert sum(each["ended_at"] > 0 for each in records) > len(records) / 3


def test_a_killed_search_goes_on_as_if_it_had_not_been(tmp_path, trained, monkeypatch):
    whole = ran(tmp_path / "whole", trials=12)
    ran(tmp_path / "parts", trials=5)
    plain, kills = sweep.Trial.train, iter([True])

    def killed(trial: sweep.Trial, command, **asked) -> int:
        code = plain(trial, command, **asked)
        if trial.point.name == "trial-007" and next(kills, False):
            raise Interrupted(15, "killed")
        return code

    monkeypatch.setattr(sweep.Trial, "train", killed)
    with pytest.raises(Interrupted):
        ran(tmp_path / "parts", trials=12)
    trained.clear()
    assert ran(tmp_path / "parts", trials=12) == whole
    assert trained and not {f"trial-{number:03d}" for number in range(7)} & set(trained)


def test_no_test_number_stands_beside_trials(tmp_path, trained, capsys):
    ran(tmp_path / "s", trials=4)
    for name in (search.RECORDS, sweep.TABLE, search.PAGE, search.IDENTITY):
        assert "1234" not in (tmp_path / "s" / name).read_text().replace(",", "")
    assert capsys.readouterr().out.count("1234") == 1  # of the best trial, in the end


def test_another_space_needs_another_directory(tmp_path, trained):
    ran(tmp_path / "s", trials=2)
    with pytest.raises(InputError, match="received a search with another space"):
        ran(tmp_path / "s", trials=2, text=RATE.replace("1e-1", "1e-2"))


def test_another_number_needs_another_directory(tmp_path, trained):
    ran(tmp_path / "s", trials=2)
    with pytest.raises(InputError, match="received a search that compares trials by val_loss"):
        ran(tmp_path / "s", trials=2, number="val_auc", sign=-1)


def test_a_search_in_which_all_fail_at_first_ends(tmp_path, trained, monkeypatch):
    monkeypatch.setattr(sweep.Trial, "train", lambda trial, command, **_: 2)
    monkeypatch.setattr(child, "why_failed", lambda code, *, log: "no such key")
    with pytest.raises(InputError, match="trial-000 and all others of the search: received no such key"):
        ran(tmp_path / "s", trials=30)
    assert len((tmp_path / "s" / search.RECORDS).read_text().splitlines()) == 3


def test_a_validation_without_the_number_of_the_search_is_named(tmp_path, trained):
    with pytest.raises(InputError, match="val_auc is not there: has the validation rows of each class"):
        ran(tmp_path / "s", trials=30, number="val_auc", sign=-1)


def test_ranges_follow_the_type_of_their_key():
    found = space.space(
        "config.optimizer.learning_rate=1..3;config.model.units=log(2..64);config.model.new=0.5..1",
        config=CONFIG,
    )
    assert found == {
        "optimizer.learning_rate": Range(low=1.0, high=3.0),
        "model.units": Range(low=2.0, high=64.0, is_log=True, is_whole=True),
        "model.new": Range(low=0.5, high=1.0),
    }
    assert found["model.units"].text(17.0) == "17"
    assert float(found["optimizer.learning_rate"].text(2.99999)) == 3.0


def test_a_narrow_range_keeps_its_values_apart():
    narrow = Range(low=0.999, high=0.99999)
    assert [narrow.text(value) for value in (0.9991234567, 0.99999, 1.0)] == [
        "0.9991235",
        "0.99999",
        "0.99999",
    ]
    assert Range(low=0.0, high=0.5).text(0.123456) == "0.1235"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("config.model.units=0.5..3", "expected whole numbers.*as in config.model.units=1..8"),
        ("config.model.is_wide=0..1", "expected true and false.*as in config.model.is_wide=true,false"),
        ("config.optimizer.learning_rate=1e-2..1e-3", "LOW below HIGH"),
        ("config.optimizer.learning_rate=log(0..1)", "above 0"),
        ("config.optimizer.learning_rate=1..1e400", "LOW below HIGH"),
        ("config.optimizer.learning_rate=1e-3..1e-2,0.5", "one range"),
        ("config.seed=0..9", "a seed is no better than another"),
    ],
)
def test_a_wrong_range_is_named(text, message):
    with pytest.raises(InputError, match=message):
        space.space(text, config=CONFIG)


def test_paths_and_versions_are_no_ranges():
    assert not space.has_ranges("config.init.source=../runs,runs..old;config.seed=0,1")
    assert all(space.has_ranges(f"config.model.dropout={each}") for each in ("0..0.5", "0 .. 0.5", ".1..0.5"))
    assert not space.has_ranges("config.model.dropout=0...5")  # 0 to 5, or to .5?


def test_of_equal_trials_the_one_with_the_least_loss_is_the_best():
    def made(name: str, loss: float) -> Outcome:
        return Outcome(name=name, values={}, params={}, numbers={"val_loss": loss}, value=1.0)

    assert search_page.best([made("a", 0.2), made("b", 0.1), made("c", 0.3)], -1).name == "b"
