"""A failing observer never fails a run, is told of once, and gets what it missed."""

import dataclasses
import json

import pytest

from pipeline.base.cli.signals import Interrupted
from pipeline.base.errors import InputError
from pipeline.base.values import leaves
from pipeline.training.observers import registry
from pipeline.training.observers.delivery import Observers
from pipeline.training.observers.observer import Observer, final_metrics, metrics_of
from pipeline.training.state.run_record import RunRecord
from pipeline.training.state.workdir import Workdir

RECORD = RunRecord(
    dataset="data/visits/1.0.0",
    dataset_digest="d" * 64,
    order=1,
    update=1,
    augmentation=0,
    config={"seed": 0, "optimizer": {"name": "adamw", "rates": []}},
    config_file="configs/visits.py",
    precision={"policy": "float32", "reason": ""},
    total_steps=3,
)


class Diary(Observer):
    """Keeps what it receives; `is_away` makes each call fail."""

    def __init__(self) -> None:
        self.seen: list[object] = []
        self.calls = 0
        self.is_away = False

    def _keep(self, *words: object) -> None:
        self.calls += 1
        if self.is_away:
            raise ConnectionError("http://me:hunter2@host:5000/api?token=abc123 is away")
        self.seen.append(words)

    def started(self, record, place, history):
        self._keep("started", place.memory.name, len(history))

    def logged(self, point):
        self._keep("logged", point["step"])

    def finished(self, steps, evaluation, report):
        self._keep("finished", steps, report.name)

    def failed(self, error, *, was_asked):
        self._keep("failed", error, was_asked)


@dataclasses.dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def observing(tmp_path, **observers: Observer) -> tuple[Observers, list[str], Clock]:
    lines, clock = [], Clock()
    return Observers(observers, Workdir(tmp_path), tell=lines.append, clock=clock), lines, clock


def test_all_events_in_order(tmp_path):
    diary = Diary()
    observers, lines, _ = observing(tmp_path, mine=diary)
    observers.started(RECORD, [{"step": 1}])
    observers.logged({"step": 2})
    observers.finished(3, {}, tmp_path / "report.html")
    assert diary.seen == [("started", "0-mine.json", 1), ("logged", 2), ("finished", 3, "report.html")]
    assert not lines


def test_what_was_missed_comes_later_and_is_told_of_once_without_secrets(tmp_path):
    away, well = Diary(), Diary()
    observers, lines, clock = observing(tmp_path, away=away, well=well)
    observers.started(RECORD, [])
    away.is_away = True
    for step in (1, 2, 3):  # at once: it is asked only once
        observers.logged({"step": step})
    assert (away.calls, well.calls) == (2, 4)
    clock.now = 31
    observers.logged({"step": 4})
    assert away.calls == 3
    clock.now, away.is_away = 62, False  # it is to wait for a minute now
    observers.logged({"step": 5})
    assert away.calls == 3
    observers.finished(6, {}, tmp_path / "report.html")  # the last event does not wait
    assert [words[1] for words in away.seen[1:]] == [1, 2, 3, 4, 5, 6]
    (line,) = lines
    assert line == (
        "warning    observer away failed; the run goes on, and tries again: ConnectionError: "
        "http://…@host:5000/api?token=… is away"
    )


@pytest.mark.parametrize(
    ("error", "was_asked"),
    [(ValueError("the disk,\n password=hunter2"), False), (Interrupted(15, "saved"), True)],
)
def test_a_run_that_fails_says_why(tmp_path, error, was_asked):
    diary = Diary()
    observers, _, _ = observing(tmp_path, mine=diary)
    with pytest.raises(type(error)), observers.told_of_failure():
        observers.started(RECORD, [])
        raise error
    assert diary.seen[-1] == ("failed", "saved" if was_asked else "the disk, password=…", was_asked)


def test_a_run_that_fails_before_it_starts_says_nothing(tmp_path):
    diary = Diary()
    observers, lines, _ = observing(tmp_path, mine=diary)
    with pytest.raises(ValueError), observers.told_of_failure():
        raise ValueError
    assert (diary.seen, lines) == ([], [])


def test_numbers_and_settings_have_names():
    point = {"step": 3, "loss": 0.5, "validation": {"split": "validation", "auc": 0.75, "examples": 4}}
    assert metrics_of(point) == {"loss": 0.5, "val_auc": 0.75}
    assert final_metrics({"split": "test", "auc": 0.5}) == {"test_auc": 0.5}
    assert dict(leaves(RECORD.config)) == {"seed": 0, "optimizer.name": "adamw", "optimizer.rates": []}


# What a config can name.


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mlfow", r"observers\[0\], class_name: received 'mlfow'; .*Did you mean 'mlflow'\?"),
        ({"class_name": "hparams", "config": {"kys": ()}}, r"the argument 'kys'; .*Did you mean 'keys'\?"),
        ({"name": "hparams"}, r"the key 'name'; expected a dict such as"),
        (
            {"class_name": "openlineage", "config": {"url": "ftp://me:hunter2@host"}},
            r"expected http://HOST/PATH",
        ),
        ({"class_name": "no_such:Mine"}, r"no module no_such"),
        (f"{__name__.rpartition('.')[2]}:RECORD", "no module|received"),
        (7, r"observers\[0\]: received a int; expected a dict such as"),
    ],
)
def test_what_cannot_work_is_refused_without_secrets(spec, message):
    with pytest.raises(InputError, match=message) as refused:
        registry.build([spec])
    assert "hunter2" not in str(refused.value)


def test_an_observer_of_ones_own_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "my_watch.py").write_text(
        "from pipeline.training.observers.observer import Observer\n"
        "class Mine(Observer):\n"
        "    def __init__(self, token=''):\n"
        "        if token: raise RuntimeError(f'token={token} is wrong')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert list(registry.build(["my_watch:Mine", "my_watch:Mine"])) == ["my_watch:Mine", "my_watch:Mine 1"]
    with pytest.raises(InputError, match=r"RuntimeError: token=… is wrong; .*my_watch.py, line 4"):
        registry.build([{"class_name": "my_watch:Mine", "config": {"token": "abc"}}])


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(registry.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"without mlflow; .*requirements/observers.txt"):
        registry.build(["mlflow"])


# OpenLineage: JSON as its specification has it.


def test_events_of_openlineage(tmp_path):
    def process(*, error: str = "") -> None:
        observers, lines, _ = observing(tmp_path, **registry.build(["openlineage"]))
        observers.started(RECORD, [])
        if error == "killed":
            return
        if error:
            with pytest.raises(ValueError), observers.told_of_failure():
                raise ValueError(error)
        else:
            observers.finished(3, {"split": "test", "auc": 0.9}, tmp_path / "report.html")
        assert not lines

    for error in ("killed", "no space", ""):
        process(error=error)
    events = [json.loads(line) for line in (tmp_path / "openlineage.jsonl").read_text().splitlines()]
    assert [each["eventType"] for each in events] == ["START", "RUNNING", "FAIL", "START", "COMPLETE"]
    ids = [each["run"]["runId"] for each in events]
    assert len(set(ids[:3])) == len(set(ids[3:])) == 1 and ids[2] != ids[3]
    (read,) = events[0]["inputs"]
    assert (read["name"], read["facets"]["version"]["datasetVersion"]) == ("data/visits/1.0.0", "d" * 64)
    assert events[2]["run"]["facets"]["errorMessage"]["message"] == "no space"
    assert events[4]["run"]["facets"]["penstock_evaluation"]["metrics"] == {"test_auc": 0.9}
