"""Runs a search: Optuna chooses the values of each trial by those before it, and poor trials end early.

All choices are by the validation; test numbers are looked at once, for the best trial, in the end. The search
is a function of its space, its config and its seed: what a killed one had done, the same command takes from
`search.jsonl`, and it goes on with the trial under way from its last checkpoint.
"""

import dataclasses
import importlib.util
import json
import math
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tqdm import tqdm

from pipeline.base import documents, files
from pipeline.base.cli.signals import Deferred, Interrupted
from pipeline.base.errors import InputError, TryAgainError
from pipeline.report import html, terminal
from pipeline.training.launch import child, search_page, sweep
from pipeline.training.launch.grid import Point, check_given_once
from pipeline.training.launch.search_page import Outcome
from pipeline.training.launch.space import Range, Space
from pipeline.training.launch.sweep import Trial
from pipeline.training.state import run_record, workdir
from pipeline.training.state.workdir import Workdir

if TYPE_CHECKING:
    import optuna

IDENTITY, RECORDS, PAGE = "search.json", "search.jsonl", "search.html"

# Successive halving (Li et al. 2020, "A System for Massively Parallel Hyperparameter Tuning"): a trial ends
# at a tenth or three tenths of its steps if it is not among the best third of those so far. A warm-up
# is over by then; later there is little left to save.
_FIRST_RUNG, _THIRD, _LAST_RUNG = 10, 3, 50  # in percent of the steps
_DRAWN = 10  # trials before the first one that is chosen by others
_FAILED_AT_FIRST = 3  # trials: if the first ones all fail, their values are not the reason


@dataclasses.dataclass(frozen=True, kw_only=True)
class Search:
    """What is searched, and how trials are compared.

    Attributes:
      config: the config of the runs, in the form of run.json, without what a trial changes.
      digest: the digest of the dataset.
      number: the number of the validation by which trials are compared, such as val_auc.
      sign: -1 if more of it is better, else 1.
    """

    space: Space
    config: Mapping
    digest: str
    number: str
    sign: int

    def identity(self) -> dict:
        """What a search that goes on must have in common with the one before."""
        space = {
            key: dataclasses.asdict(part) if isinstance(part, Range) else list(part)
            for key, part in self.space.items()
        }
        named = {"space": space, "dataset": self.digest, "compared by": self.number, "config": self.config}
        return json.loads(json.dumps(named))


def run(
    search: Search,
    *,
    trials: int,
    config_of: Callable[[Point], Mapping],
    root: pathlib.Path,
    command: Sequence[str],
    warm_start: pathlib.Path | None = None,
) -> None:
    """Runs as many trials as are missing, in directories below `root`; prints and writes what they gave.

    Args:
      trials: how many there shall be in all.
      config_of: function from a point to the config of its run, in the form of run.json.
      command: the command line, as arguments of `python -m`.
      warm_start: working directory of the run that gives all runs their first weights.

    Raises:
      InputError: Optuna is missing; `root` holds another search, or a single run; a point's values do not fit
        the config; or no trial came to its end.
      Interrupted: a signal ended it, after the run under way had saved.
    """
    _require_optuna()
    check_given_once(command, Point(values=dict.fromkeys(search.space, "")))
    sweep.check_directory(root)
    for point in _corners(search.space):
        config_of(point)
    with files.hold_directory(root, thing=f"--workdir={root}"):
        _check_identity(root / IDENTITY, search)
        made = _Trials(root=root, config_of=config_of, warm_start=warm_start, command=command, search=search)
        outcomes = made.run(trials)
        best = search_page.best(outcomes, search.sign)
        rows = [each.row for each in outcomes]
        files.write_bytes(root / sweep.TABLE, sweep.csv_text(rows).encode())
        if best is None:
            raise _all_failed(outcomes, root)
        sections = search_page.sections(outcomes, space=search.space, number=search.number, sign=search.sign)
        files.write_bytes(root / PAGE, html.page(*sections).encode())
    print("\n".join(_summary(outcomes, best=best, search=search, root=root)))


def _corners(space: Space) -> Iterator[Point]:
    """Points in which one key has one of its values, or an end of its range, and all others their first."""
    ends = {
        key: tuple(map(part.text, (part.low, part.high))) if isinstance(part, Range) else tuple(part)
        for key, part in space.items()
    }
    first = {key: texts[0] for key, texts in ends.items()}
    for key, texts in ends.items():
        yield from (Point(values={**first, key: text}) for text in texts)


def _summary(
    outcomes: Sequence[Outcome], *, best: Outcome, search: Search, root: pathlib.Path
) -> Iterator[str]:
    yield from ("", *search_page.table_lines(outcomes, number=search.number, sign=search.sign), "")
    final = workdir.read_json(Workdir(root / best.name).evaluation) or {}
    numbers = workdir.numbers(final)
    yield f"best: {best.name}  {search.number} {sweep.number(best.value)}"
    found = "  ".join(f"{name} {sweep.number(value)}" for name, value in numbers.items())
    yield terminal.broken(f"on {final.get('split', 'no split')}, looked at for this trial alone: {found}")
    yield f"its values: {' '.join(Point(values=best.values).flags)}"
    yield f"page: {root / PAGE}"
    yield f"export: python -m pipeline.export --workdir={root / best.name} --output={root / 'export'}"


# --- Trials: each is asked for, trained, and recorded.


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Trials:
    root: pathlib.Path
    config_of: Callable[[Point], Mapping]
    warm_start: pathlib.Path | None
    command: Sequence[str]
    search: Search

    def run(self, count: int) -> list[Outcome]:
        """The outcomes of the first `count` trials; those that are not recorded are run."""
        records = self.root / RECORDS
        kept = documents.read_lines(records, checked=_with_values, without="all trials so far")
        study = _study(self.search.sign)
        outcomes = [Outcome.of_record(each) for each in kept[:count]]
        for outcome in outcomes:
            _tell_again(study, outcome, self.search.space)
        with Deferred() as signals, tqdm(total=count, unit="trial", disable=not sys.stderr.isatty()) as bar:
            bar.update(len(outcomes))
            for number in range(len(outcomes), count):
                outcome = self._next(study, number, bar=bar, came=signals.came)
                documents.append_line(records, outcome.record())
                outcomes.append(outcome)
                bar.write(f"{outcome.name}  {search_page.result(outcome, self.search.number)}")
                sys.stdout.flush()
                bar.update()
                if number + 1 == _FAILED_AT_FIRST and all(each.failed for each in outcomes):
                    raise _all_failed(outcomes, self.root)
        return outcomes

    def _next(self, study: "optuna.Study", number: int, *, bar: tqdm, came: Callable[[], int]) -> Outcome:
        asked = _ask(study, number, self.search.space)
        trial = self._trial(number, asked.params)
        bar.write(f"{trial.point.name}  {' '.join(trial.point.flags)}  log: {trial.log}")
        watch = _Watch(trial=trial, asked=asked, number=self.search.number)
        is_finished = trial.is_finished(dataset_digest=self.search.digest)
        code = 0
        if not watch.is_poor() and not is_finished:
            code = trial.train(self.command, came=came, is_enough=watch.is_poor)
        if came():
            raise Interrupted(came(), "the trial under way was saved; the same command goes on with it")
        outcome = self._outcome(trial, asked.params, watch, code)
        _tell(study, asked, outcome)
        return outcome

    def _trial(self, number: int, params: Mapping) -> Trial:
        texts = {
            key: part.text(params[key]) if isinstance(part, Range) else params[key]
            for key, part in self.search.space.items()
        }
        point = Point(values=texts, title=f"trial-{number:03d}")
        config = self.config_of(point)
        workdir_of = Workdir(self.root / point.name)
        return Trial(point=point, workdir=workdir_of, config=config, warm_start=self.warm_start)

    def _outcome(self, trial: Trial, params: Mapping, watch: "_Watch", code: int) -> Outcome:
        is_poor = watch.is_poor()  # what came last is looked at, too
        named = {"name": trial.point.name, "values": dict(trial.point.values), "params": dict(params)}
        named |= {"reports": tuple(watch.reports)}
        seconds = _seconds(trial)
        if is_poor:
            numbers = {self.search.number: watch.reports[-1][1]}
            return Outcome(**named, numbers=numbers, seconds=seconds, ended_at=watch.reports[-1][0])
        if code:
            if child.may_succeed_later(code):
                raise _may_succeed_later(trial, child.why_failed(code, log=trial.log))
            return Outcome(**named, seconds=seconds, failed=child.why_failed(code, log=trial.log))
        numbers = {name: each for name, each in trial.numbers().items() if name.startswith("val_")}
        value = numbers.get(self.search.number, math.nan)
        if not math.isfinite(value):
            is_there = self.search.number in numbers
            why = f"is {value}" if is_there else "is not there: has the validation rows of each class?"
            return Outcome(**named, seconds=seconds, failed=f"{self.search.number} {why}")
        return Outcome(**named, numbers=numbers, seconds=seconds, value=value)


def _with_values(record: dict) -> dict:
    """A line of the records; raises KeyError if it is none."""
    return {**record, "values": record["values"]}


def _seconds(trial: Trial) -> float:
    record = run_record.read(trial.workdir.run)
    return record.seconds if record else 0.0


@dataclasses.dataclass(kw_only=True)
class _Watch:
    """Follows the curves of a trial's run, and reports each validation to Optuna, in order."""

    trial: Trial
    asked: "optuna.Trial"
    number: str
    reports: list[tuple[int, float]] = dataclasses.field(default_factory=list)  # percent of the steps, value
    _is_poor: bool = False
    _size: int = -1

    def is_poor(self) -> bool:
        """Returns whether the trial is among the poorer ones. Nothing is reported after that."""
        history = self.trial.workdir.history
        size = history.stat().st_size if history.exists() else -1
        if not self._is_poor and size != self._size:
            self._size = size
            record = run_record.read(self.trial.workdir.run)
            for point in workdir.read_history(history) if record else ():
                self._report(point, steps=record.total_steps)
        return self._is_poor

    def _report(self, point: Mapping, *, steps: int) -> None:
        percent = 100 * point["step"] // max(steps, 1)
        value = point.get("validation", {}).get(self.number.removeprefix("val_"))
        is_new = not self.reports or percent > self.reports[-1][0]
        if self._is_poor or not is_new or not isinstance(value, float) or not math.isfinite(value):
            return
        self.reports.append((percent, value))
        self.asked.report(value, percent)
        self._is_poor = percent <= _LAST_RUNG and self.asked.should_prune()


def _check_identity(path: pathlib.Path, search: Search) -> None:
    """Raises InputError if the directory holds another search; else notes which one it is."""
    wanted, found = files.finite(search.identity()), workdir.read_json(path)
    if found is None:
        files.write_json(path, wanted)
        return
    other = next((name for name in wanted if found.get(name) != wanted[name]), None)
    if other:
        raise InputError(
            f"--workdir={path.parent}",
            received=f"a search that compares trials by {found.get(other)}"
            if other == "compared by"
            else f"a search with another {other}",
            expected="the search that began there; only --trials may differ",
            action="Choose another --workdir, or repeat the earlier command.",
        )


def no_validation() -> InputError:
    """The error for a search without a split to compare trials on."""
    return InputError(
        "--sweep with a range",
        received="a run without a validation",
        expected="a split by which trials are compared",
        action="Name one: --config.evaluation.split=validation, or a part: train[90%:].",
    )


def _all_failed(outcomes: Sequence[Outcome], root: pathlib.Path) -> InputError:
    failed = next(each for each in outcomes if each.failed)
    return InputError(
        f"{failed.name} and all others of the search",
        received=failed.failed,
        expected="a trial that trains to its end",
        action=f"See {root / failed.name}.log. Correct the ranges, or what it names, and choose another "
        "--workdir.",
    )


def _may_succeed_later(trial: Trial, reason: str) -> TryAgainError:
    return TryAgainError(
        trial.point.name,
        received=reason,
        expected="a run that goes on",
        action=f"See {trial.log}; the same command goes on with this trial.",
    )


# --- Optuna: the one place that knows it.


def _require_optuna() -> None:
    if importlib.util.find_spec("optuna") is None:
        raise InputError(
            "--sweep with a range",
            received="a Python environment without optuna",
            expected="the optional package that chooses the values",
            action="Install it: pip install -r requirements/search.txt, or 'penstock[search]'.",
        )


def _study(sign: int) -> "optuna.Study":
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=_FIRST_RUNG, reduction_factor=_THIRD)
    return optuna.create_study(direction="minimize" if sign > 0 else "maximize", pruner=pruner)


def _ask(study: "optuna.Study", number: int, space: Space) -> "optuna.Trial":
    """The next trial. Its values depend on its number and on those before, not on when the search began."""
    import optuna

    study.sampler = optuna.samplers.TPESampler(seed=number, n_startup_trials=_DRAWN)
    return study.ask({key: _distribution(part) for key, part in space.items()})


def _distribution(part: Range | Sequence[str]) -> "optuna.distributions.BaseDistribution":
    from optuna import distributions

    if not isinstance(part, Range):
        return distributions.CategoricalDistribution(list(part))
    if part.is_whole:
        return distributions.IntDistribution(int(part.low), int(part.high), log=part.is_log)
    return distributions.FloatDistribution(part.low, part.high, log=part.is_log)


def _tell(study: "optuna.Study", asked: "optuna.Trial", outcome: Outcome) -> None:
    import optuna

    states = optuna.trial.TrialState
    state = states.FAIL if outcome.failed else states.PRUNED if outcome.ended_at else states.COMPLETE
    study.tell(asked, outcome.value if state is states.COMPLETE else None, state=state)


def _tell_again(study: "optuna.Study", outcome: Outcome, space: Space) -> None:
    """Repeats a recorded trial in the study: it asks, reports and tells again what it did when it ran."""
    study.enqueue_trial(dict(outcome.params))
    asked = study.ask({key: _distribution(part) for key, part in space.items()})
    for percent, value in outcome.reports:
        asked.report(value, percent)
        if percent <= _LAST_RUNG:
            asked.should_prune()  # notes the value at its rung, with which later trials are compared
    _tell(study, asked, outcome)
