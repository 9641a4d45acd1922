"""A root of small spans in which one cycle has been promoted; each test gets a copy of its own."""

import dataclasses
import datetime
import pathlib
import shutil
import sys
from collections.abc import Callable, Iterator

import pytest
from ml_collections import ConfigDict

from pipeline.configs.retraining import base
from pipeline.publishing import versions
from pipeline.publishing.remote.cloud_storage import Place
from pipeline.retraining import datasets, records
from pipeline.retraining import plan as plan_lib
from pipeline.retraining import reconcile as reconcile_lib
from pipeline.retraining import settings as settings_lib
from pipeline.retraining.reconcile import Outcome
from pipeline.retraining.records import Root
from pipeline.retraining.settings import Commands, Settings
from tests.shared import once, small_spans

COMMANDS = Commands(convert="beam_jobs.convert", train="pipeline.train", export="pipeline.export")
MORNING = datetime.datetime(2026, 11, 4, 6, tzinfo=datetime.UTC)


def small_config() -> ConfigDict:
    config = base.get_config()
    config.name = "trips"
    config.train.flags = (
        "--strategy=one_device",
        "--config.train.epochs=3",
        "--config.global_batch=64",
        "--config.optimizer.learning_rate=0.01",
        "--config.optimizer.warmup_steps=2",
    )
    config.infra.calls = 5
    config.infra.rounds = 1
    config.infra.median_ratio = config.infra.p99_ratio = 1000.0  # of a machine that is busy with tests
    return config


@dataclasses.dataclass(kw_only=True)
class Schedule:
    """A root, what is retrained in it, and the time."""

    path: pathlib.Path
    config: ConfigDict
    now: datetime.datetime = MORNING
    store: Place | None = None

    @property
    def root(self) -> Root:
        return records.existing_root(self.path, name=self.config.name)

    @property
    def settings(self) -> Settings:
        like = base.get_config().to_dict()
        parsed = settings_lib.parse(self.config.to_dict(), COMMANDS, like=like)
        return dataclasses.replace(parsed, store=self.store)

    def reconcile(self, *, retry: bool = False) -> Outcome:
        return reconcile_lib.reconcile(self.path, self.settings, clock=lambda: self.now, retry=retry)

    def plan(self) -> plan_lib.Plan:
        spans = datasets.survey_spans(self.root, self.settings.sources(self.root))
        return plan_lib.make(self.root, self.settings, spans, now=self.now)

    def later(self, **time: float) -> "Schedule":
        self.now += datetime.timedelta(**time)
        return self

    def add(self, number: int, **more: object) -> str:
        return small_spans.write_span(self.path, number, **more)

    @property
    def versions(self) -> list[int]:
        return versions.versions(self.root.serving)

    @property
    def cycles(self) -> list[records.Cycle]:
        return records.cycle_history(self.root)

    def acts(self) -> list[str]:
        """Of the audit log, but for the starts of stages."""
        return [entry["act"] for entry in records.audit_entries(self.root.audit) if entry["act"] != "started"]


@pytest.fixture(scope="session")
def promoted(warm_python: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Schedule:
    """Three spans, and a cycle of them that was promoted. Not to be changed."""

    def promote(folder: pathlib.Path) -> None:
        small_spans.write_schema(folder / "root")
        schedule = Schedule(path=folder / "root", config=small_config())
        for number in range(3):
            schedule.add(number)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sys, "executable", str(warm_python))
            outcome = schedule.reconcile()
        assert outcome.decision == "PROMOTE", outcome

    folder = once.folder(tmp_path_factory, "promoted", promote)
    return Schedule(path=folder / "root", config=small_config())


@pytest.fixture
def schedule(
    promoted: Schedule, warm_python: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Schedule]:
    """A copy of `promoted`, an hour later."""
    monkeypatch.setattr(sys, "executable", str(warm_python))
    path = tmp_path / "root"
    shutil.copytree(promoted.path, path)
    yield Schedule(path=path, config=small_config(), now=promoted.now).later(hours=1)


@pytest.fixture
def stopping_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Call it with a stage's name: the cycle is broken off before that stage, as by a kill."""
    from pipeline.retraining import cycle

    def stop(stage: str) -> None:
        def killed(job: object) -> dict:
            raise KeyboardInterrupt

        monkeypatch.setattr(cycle, "STAGES", {**cycle.STAGES, stage: killed})

    return stop
