"""Fits the baselines and compares the network with each, on the same rows: what `baselines.json` holds.

The training rows and the examples of the final split are samples where there are many, so that this takes
seconds: see MOST_ROWS and the limits beside it.
"""

import contextlib
import dataclasses
import math
import time
from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.base import files
from pipeline.base.errors import InputError
from pipeline.data.dataset.selection import Selection
from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.schema.feature_types import Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.gate.measurement import measure
from pipeline.gate.metrics import METRICS
from pipeline.gate.rules import GateRules
from pipeline.gate.scores import CHALLENGER, CHAMPION, PRIOR, REGRESSION, Scored, prepare
from pipeline.gate.slices import MetricResult, metric_result
from pipeline.training.baselines import fits, table
from pipeline.training.baselines.table import TEXTS, Table

MOST_ROWS = 50_000  # baselines are fitted to no more rows
MOST_EXAMPLES = 200_000  # they answer no more rows of the final split
_LEAST_ROWS = 1_000
_MOST_CELLS = 8_000_000  # in a table, 32 bytes each; a fit counts them once a class, which has its own trees
_MOST_CHARACTERS = 8_000_000  # in texts: their pairs of words take most of the time
_MOST_NUMBERS = 20_000_000  # if the network predicts more, nothing is compared
_RUN = 1_024  # rows that are read together
# A headline of the report's: what a reader looks at first.
DECIDING = {"binary": "auc", "multiclass": "accuracy", "regression": "mean_squared_error"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    """A trained network, and what it was trained and evaluated on.

    Attributes:
      inputs: the schema of what the network is fed with.
      weights: the column that weighs the losses; None: none does.
      is_mixture: whether more is trained on than `training`.
    """

    inputs: Schema
    training: Selection
    final: Selection
    statistics: SplitStatistics
    weights: Numeric | None = None
    is_mixture: bool = False
    seed: int = 0

    @property
    def label(self) -> Label:
        return self.inputs.label

    @property
    def classes(self) -> int:
        return len(self.label.classes)


def is_for(inputs: Schema, final: Selection) -> bool:
    """Returns whether there are baselines for such data: a table or texts, a task that has intervals."""
    is_known = inputs.label.task in DECIDING and table.is_tabular(inputs)
    return is_known and final.rows * max(1, len(inputs.label.classes)) <= _MOST_NUMBERS


def made(subject: Subject, predictions: "Predictions", *, hosts: int) -> dict:
    """Returns what `baselines.json` holds: `make`, or why there is none under `notes`.

    A run of days must not end for a baseline, so whatever goes wrong is a note.

    Args:
      hosts: how many read the batches of the evaluation.
    """
    if subject.is_mixture:
        return _none("the data are a mixture, of which a baseline would see one part")
    if subject.final.shares_rows(subject.training):
        return _none(f"rows of '{subject.final.expression}' are trained on: trees know them by heart")
    if not fits.is_installed():
        return _none("scikit-learn is not installed: pip install scikit-learn, or say --nobaseline")
    try:
        labels, predicted = predictions.in_stored_order(hosts=hosts)
        return make(subject, predicted, labels)
    except Exception as error:  # no list says what a library's fit may raise
        return _none(_reason(error))


def _none(why: str) -> dict:
    return {"baselines": [], "notes": [why]}


def _reason(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def make(subject: Subject, predictions: np.ndarray, labels: np.ndarray) -> dict:
    """Fits each baseline, and compares the network with it.

    Args:
      predictions: what the network says of every row of `subject.final` in stored order: probabilities
        [n, classes], or values [n].
      labels: [n], which the predictions were compared with.

    Returns:
      The split, the numbers of rows, and by metric the network's values, those of each baseline, and by how
      much the network is better; numbers that are not known are None.

    Raises:
      InputError: a record is damaged, or predictions are no numbers, or not those of the split's rows.
    """
    began = time.monotonic()
    trained, tested, examples = _tables(subject)
    if not np.array_equal(tested.labels, labels[examples]):
        raise InputError(
            f"predictions for split '{subject.final.expression}'",
            received="labels in another order than the rows are stored in",
            expected="the same order",
            action="Leave the comparison out with --nobaseline.",
        )
    titles, answers, notes = (
        {PRIOR: "mean" if subject.label.task == REGRESSION else "prior"},
        {PRIOR: None},
        [],
    )
    for model in fits.models_for(trained, subject.classes):
        try:
            answers[model.name] = fits.fitted(model, trained, classes=subject.classes)(tested)
            titles[model.name] = model.title
        except (ValueError, MemoryError) as error:  # such as rows of one class alone
            notes.append(f"no {model.title}: {_reason(error)}")
    prior, network = _prior(subject, trained), predictions[examples]
    compared = {
        name: _compare(subject, tested, network, answer, prior=prior) for name, answer in answers.items()
    }
    alone = _telling_alone(subject, trained, tested) if _is_perfect(subject, compared) else []
    return files.finite(
        {
            "split": subject.final.expression,
            "task": subject.label.task,
            "metric": DECIDING[subject.label.task],
            "confidence": _RULES.confidence,
            "examples": len(examples),
            "examples_of": subject.final.rows,
            "rows": len(trained.labels),
            "rows_of": subject.training.rows,
            "scikit_learn": fits.version(),
            "network": {each.name: dataclasses.asdict(each.values[CHALLENGER]) for each in compared[PRIOR]},
            "baselines": [
                {"name": name, "title": titles[name], **_entry(results)} for name, results in compared.items()
            ],
            "alone": alone,
            "notes": notes,
            "seconds": round(time.monotonic() - began, 3),
        }
    )


# --- A column that gives the label away.


_PERFECT = 0.999  # of the deciding metric; few models of real data reach it
_ROWS_ALONE = 5_000  # rows for a model of one column alone
_MOST_ALONE = 200  # columns that are tried
_NAMED = 3  # columns that are named, at most


def _is_perfect(subject: Subject, compared: Mapping[str, Sequence[MetricResult]]) -> bool:
    """Returns whether the network or a baseline is as good as if it saw the label."""
    deciding = DECIDING[subject.label.task]
    results = [each for name, some in compared.items() if name != PRIOR for each in some]
    found = [value.value for each in results if each.name == deciding for value in each.values.values()]
    if subject.label.task == REGRESSION:
        [spread] = [each.values[PRIOR].value for each in compared[PRIOR] if each.name == deciding]
        return min(found, default=math.inf) <= (1 - _PERFECT) * spread
    return any(value >= _PERFECT for value in found)


def _telling_alone(subject: Subject, trained: Table, tested: Table) -> list[dict]:
    """Returns the raw columns that alone answer nearly all rows, the best first, with their scores."""
    rows = np.random.default_rng(subject.seed).permutation(len(trained.labels))[:_ROWS_ALONE]
    scores = {}
    for feature, columns in list(table.places(subject.inputs))[:_MOST_ALONE]:
        one = trained.take(rows).only(columns)
        model = list(fits.models_for(one, subject.classes))[-1]  # trees, where they take such a column
        with contextlib.suppress(ValueError, MemoryError):  # such as a text without a word
            answer = fits.fitted(model, one, classes=subject.classes)(tested.only(columns))
            scores[feature.source_column] = fits.score(answer, tested.labels)
    best = sorted(scores, key=scores.__getitem__, reverse=True)[:_NAMED]
    return [{"column": name, "score": scores[name]} for name in best if scores[name] >= _PERFECT]


def _tables(subject: Subject) -> tuple[Table, Table, np.ndarray]:
    """Returns the rows to fit to and those to answer, with the positions of these in the final split."""
    width, trees = table.width(subject.inputs), subject.classes if subject.classes > 2 else 1
    most_rows = max(_LEAST_ROWS, min(MOST_ROWS, _MOST_CELLS // (width * trees)))
    most_examples = max(_LEAST_ROWS, min(MOST_EXAMPLES, _MOST_CELLS // width))
    examples = sampled(subject.final.rows, most_examples, seed=subject.seed)
    of_training = sampled(subject.training.rows, most_rows, seed=subject.seed)
    reading = {"inputs": subject.inputs, "statistics": subject.statistics}
    trained = table.read_table(subject.training, of_training, weights=subject.weights, **reading)
    tested = table.read_table(subject.final, examples, **reading)
    return _shortened(trained, seed=subject.seed), tested, examples


def sampled(rows: int, most: int, *, seed: int) -> np.ndarray:
    """Positions of about `most` of the rows, int64, ascending: runs of neighbours, which share a block."""
    if rows <= most:
        return np.arange(rows)
    runs = np.random.default_rng(seed).choice(max(1, rows // _RUN), max(1, most // _RUN), replace=False)
    return (np.sort(runs)[:, None] * _RUN + np.arange(min(_RUN, most))).reshape(-1)


def _shortened(trained: Table, *, seed: int) -> Table:
    """Random rows, whose texts have at most `_MOST_CHARACTERS` together; all rows if they have no more."""
    lengths = sum(np.array([len(text) for text in trained.cells[:, at]]) for at in trained.of(TEXTS))
    if np.sum(lengths) <= _MOST_CHARACTERS:
        return trained
    order = np.random.default_rng(seed).permutation(len(trained.labels))
    kept = np.searchsorted(np.cumsum(lengths[order]), _MOST_CHARACTERS)
    return trained.take(np.sort(order[: max(1, kept)]))


def _prior(subject: Subject, trained: Table) -> float | np.ndarray:
    """The mean of the labels that are fitted to, or the classes' shares."""
    if subject.label.task == REGRESSION:
        return float(np.average(trained.labels.astype(np.float64), weights=trained.weights))
    counts = np.bincount(trained.labels, weights=trained.weights, minlength=subject.classes)
    return counts / counts.sum()


_RULES = GateRules()


def _compare(
    subject: Subject,
    tested: Table,
    predictions: np.ndarray,
    answer: np.ndarray | None,
    *,
    prior: float | np.ndarray,
) -> Sequence[MetricResult]:
    """The gate's metrics of the network and of a baseline, and their difference; `answer` None: the prior."""
    ready = prepare(
        Scored(
            task=subject.label.task,
            labels=tested.labels,
            predictions={CHALLENGER: predictions, **({} if answer is None else {CHAMPION: answer})},
            class_names=subject.label.classes,
            prior=prior,
        )
    )
    return [
        metric_result(
            metric,
            measure(metric, ready.sample(metric), _RULES),
            list(ready.predictions),
            confidence=_RULES.confidence,
        )
        for metric in METRICS[subject.label.task]
    ]


def _entry(results: Sequence[MetricResult]) -> dict:
    """The baseline's value of each metric, and how much better the network is."""
    [other] = {model for each in results for model in each.values} - {CHALLENGER}
    return {
        "metrics": {each.name: dataclasses.asdict(each.values[other]) for each in results},
        "network_better_by": {each.name: dataclasses.asdict(each.differences[other]) for each in results},
    }


# --- The predictions of the network, as its evaluation makes them.


class Predictions:
    """Keeps labels and predictions of an evaluation, and puts them into the order of the stored rows.

    A global batch holds the examples of each host, one host after the other, and a host reads a range of the
    stored rows: see `evaluation_batches`.
    """

    def __init__(self) -> None:
        self._batches: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def __call__(self, labels: np.ndarray, predictions: np.ndarray, mask: np.ndarray) -> None:
        """Receives a global batch: [batch], [batch, …], and mask [batch], 0 where an example is padding."""
        self._batches.append((labels, predictions, mask))

    def in_stored_order(self, *, hosts: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns labels [n] and predictions [n, …] of the n rows."""
        labels, predictions, mask = (_by_host(part, hosts) for part in zip(*self._batches, strict=True))
        kept = mask > 0
        return labels[kept], predictions[kept]


def _by_host(batches: Sequence[np.ndarray], hosts: int) -> np.ndarray:
    """Global batches, [batch, …] each → all examples, those of the first host first."""
    together = np.stack(batches)  # (steps, batch, …)
    steps, batch, *rest = together.shape
    parted = together.reshape(steps, hosts, batch // hosts, *rest)
    return np.moveaxis(parted, 1, 0).reshape(steps * batch, *rest)
