"""The argument of every stage: the cycle's plan, its folder, and the results of earlier stages."""

import dataclasses
import datetime
import functools
import pathlib
from collections.abc import Callable, Mapping

from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.window import open_window
from pipeline.publishing import versions
from pipeline.retraining import datasets, records
from pipeline.retraining.records import Root
from pipeline.retraining.settings import LATER, Settings

_TEST = "test"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """Rows of spans; `split` is an expression such as train+validation."""

    dataset: Dataset
    split: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """A running cycle. `plan` is what reconcile.start wrote; `publishes` is False for most backfills."""

    root: Root
    settings: Settings
    id: str
    plan: Mapping
    now: Callable[[], datetime.datetime]
    publishes: bool = True

    @property
    def folder(self) -> pathlib.Path:
        return self.root.cycle(self.id)

    @property
    def run(self) -> pathlib.Path:
        """The working directory of pipeline.train."""
        return self.folder / "run"

    @property
    def export(self) -> pathlib.Path:
        return self.folder / "export"

    @property
    def answers(self) -> pathlib.Path:
        """The file with the models' answers to the holdout."""
        return self.folder / "answers.npz"

    def result_path(self, stage: str) -> pathlib.Path:
        return self.folder / f"{stage}.json"

    def result(self, stage: str) -> dict:
        """Reads the result of a stage that has ended."""
        return records.read_result(self.result_path(stage))

    def log(self, operation: str, **values: object) -> None:
        """Adds an entry of this cycle to the audit log, once; see records.add_entry_once."""
        records.add_entry_once(self.root.audit, operation, at=self.now(), cycle=self.id, **values)

    def directories(self, role: str) -> list[pathlib.Path]:
        """Returns the datasets of the spans with a role, "training" or "holdout", in order."""
        return [
            datasets.dataset_of(self.root, span["name"], span["fingerprint"])
            for span in records.spans_of(self.plan, role)
        ]

    @functools.cached_property
    def training(self) -> Part:
        """All rows that training reads, to learn from them or to choose its best step."""
        dataset = open_window(self.directories("training"))
        is_later = self.settings.holdout.kind == LATER
        return Part(dataset=dataset, split=_joined(dataset, without="" if is_later else _TEST))

    @functools.cached_property
    def holdout(self) -> Part:
        """The rows on which models are evaluated."""
        dataset = open_window(self.directories("holdout"))
        if self.settings.holdout.kind == LATER:
            return Part(dataset=dataset, split=_joined(dataset))
        if _TEST not in dataset.manifest.splits or not dataset.rows(_TEST):
            raise InputError(
                f"dataset {dataset}",
                received="no rows in split 'test'",
                expected="a test split to evaluate on, since config.holdout.kind is 'split'",
                action='Set config.spans.convert = ("--splits=train=0.8,validation=0.1,test=0.1",).',
            )
        return Part(dataset=dataset, split=_TEST)

    def models(self) -> dict[str, pathlib.Path]:
        """Returns the directories of the exports to compare, by role; see pipeline/gate."""
        others = {role: self.plan[role].get("version") for role in ("champion", "anchor")}
        if others["anchor"] == others["champion"]:
            del others["anchor"]  # both are the same model
        found = {role: self._version(version) for role, version in others.items() if version}
        return {"challenger": self.export, **found}

    def _version(self, version: int) -> pathlib.Path:
        directory = versions.path_of(self.root.serving, version)
        if not directory.is_dir():
            raise InputError(
                f"version {version} of {self.root.serving}",
                received="no such folder",
                expected="the model that this cycle was to be compared with",
                action="Restore it from a copy; or run `pipeline.retrain rollback --to=VERSION --reason=…`.",
            )
        return directory


def _joined(dataset: Dataset, *, without: str = "") -> str:
    """Returns all splits that have rows, as one expression."""
    splits = [split for split in dataset.manifest.splits if split != without and dataset.rows(split)]
    if not splits:
        raise InputError(
            f"dataset {dataset}",
            received=f"no rows{f' outside of split {without!r}' if without else ''}",
            expected="rows to read",
            action="Set other --splits in config.spans.convert.",
        )
    return "+".join(splits)


# --- HOLD: a person may stop a cycle while it runs.


class HeldError(InputError):
    """Raised where retraining is held. Nothing is wrong: the cycle continues after the release."""

    exit_code = 0


def check_held(job: Job) -> None:
    """Raises HeldError where the file HOLD appeared since the cycle started."""
    if held := records.why_on_hold(job.root):
        raise HeldError(
            f"cycle {job.id}",
            received=f"HOLD: {held['reason']}",
            expected="no hold before a model is published",
            action="It goes on after `pipeline.retrain release --reason=…`.",
        )
