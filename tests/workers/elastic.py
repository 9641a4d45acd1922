"""Runs by different numbers of workers, beside each other and one after another on one directory."""

import pathlib
import signal
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tests.shared import forked
from tests.soak import hooks, lineage, runs
from tests.soak.runs import Case

# Of float32 weights and moments after STEPS steps, relative to the largest of a variable: replicas add the
# same numbers in another order. docs/training.md states it.
TOLERANCE = 1e-4
STEPS = 24
_SMALL = pathlib.Path(__file__).with_name("small_config.py")
_MADE_WITHIN = 300.0


def made(body: Callable[[], object], folder: pathlib.Path) -> None:
    ended = forked.call(body, folder, timeout=_MADE_WITHIN)
    if ended.code:
        raise RuntimeError(ended.stderr)


def same_weights(dataset: pathlib.Path, folder: pathlib.Path, *, counts: Sequence[int]) -> Iterator[str]:
    """What differs between runs by `counts` workers, and between the workers of each."""
    first = None
    for count in counts:
        process = runs.run(case(dataset, count), folder / f"run{count}", folder / f"processes{count}")
        if process.code or len(process.steps) != STEPS:
            steps = f"{len(process.steps)} steps"
            yield f"{count} workers: exit code {process.code}, {steps}: {process.stderr[-600:]}"
            return
        weights = [_weights(path) for path in sorted((folder / f"processes{count}").glob("*/weights.npz"))]
        if len(weights) != count or not all(_equal(weights[0], each) for each in weights):
            yield f"{count} workers: their weights differ, or are not all there ({len(weights)})"
        first = first or (process.steps, weights[0])
        found = _difference(first[1], weights[0])
        print(f"weights: {count} workers, identical; {found:.2g} from the first run", flush=True)
        if not found <= TOLERANCE:
            yield f"{count} workers: weights differ by {found:.2g}, of which {TOLERANCE:g} are allowed"
        if lineage.difference(list(process.steps.items()), first[0]) != _NONE:
            yield f"{count} workers: other examples in a step"


def changed(dataset: pathlib.Path, folder: pathlib.Path, *, counts: Sequence[int]) -> Iterator[str]:
    """What is wrong with a run that two workers begin, four go on with, and one ends."""
    del counts
    whole = runs.run(case(dataset, 1), folder / "whole", folder / "whole-process")
    plans = [
        (2, hooks.Plan(number=signal.SIGKILL, worker=1, step=9)),
        (4, hooks.Plan(number=signal.SIGTERM, worker=2, step=16)),
        (1, None),
    ]
    generations = []
    for count, plan in plans:
        process = runs.run(case(dataset, count), folder / "run", folder / f"processes{count}", plan)
        steps = f"steps {min(process.steps)}–{max(process.steps)}" if process.steps else "no step"
        print(f"elastic: {count} workers, {plan or 'to the end'}: {steps}", flush=True)
        generations.append(process.steps)
    if process.code or whole.code:
        yield f"elastic: exit code {process.code}: {process.stderr[-600:]} {whole.stderr[-600:]}"
        return
    difference = lineage.difference(lineage.of_weights(generations), whole.steps)
    last = _weights(folder / "processes1" / "0" / "weights.npz")
    found = _difference(_weights(folder / "whole-process" / "0" / "weights.npz"), last)
    print(f"elastic: {difference.lost} lost, {difference.repeated} repeated; weights {found:.2g}", flush=True)
    if difference != _NONE or not found <= TOLERANCE or len(whole.steps) != STEPS:
        yield f"elastic: {difference}, weights differ by {found:.2g}"


_NONE = lineage.Difference(lost=0, repeated=0, elsewhere=0)


def case(dataset: pathlib.Path, workers: int) -> Case:
    """One global batch for every number of workers; without dropout, whose masks are each replica's own."""
    arguments = (
        *(f"--config={_SMALL}", f"--dataset={dataset}", f"--config.train.steps={STEPS}"),
        *("--strategy=auto", "--precision=float32", "--deterministic"),
    )
    return Case(name=f"{workers}_workers", arguments=arguments, workers=workers, steps=STEPS, epoch=200 / 48)


_Weights = dict[str, np.ndarray]


def _weights(path: pathlib.Path) -> _Weights:
    with np.load(path) as file:
        return dict(file)


def _equal(one: _Weights, other: _Weights) -> bool:
    return one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)


def _difference(one: _Weights, other: _Weights) -> float:
    """The largest, of all variables, relative to the largest entry of each."""
    return max(
        float(np.max(np.abs(one[name].astype("f8") - other[name])) / max(1e-12, np.max(np.abs(one[name]))))
        for name in one
        if one[name].size and one[name].dtype.kind == "f"
    )
