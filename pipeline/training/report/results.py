"""The model in the report: the headline, final metrics, what it confuses, and baselines to beat."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pipeline.data.schema.feature_types import Label
from pipeline.report import formats
from pipeline.report.charts import confusion_matrix, predicted_vs_actual, roc_curve
from pipeline.report.html import Markup, join, tag
from pipeline.report.section import Note, Section, Table, Tiles
from pipeline.training.experiment.metrics import shown
from pipeline.training.report.inputs import ReportInputs, as_float
from pipeline.training.tasks.registry import TASKS, WEIGHTED
from pipeline.training.tasks.task import Metric

_MAX_CLASSES_LISTED = 12
_MAX_PAIRS = 6
_CLASS_CHARACTERS = 16  # of a name above a column


def metrics_of(inputs: ReportInputs) -> tuple[Metric, ...]:
    """The metrics of the run's task, the most important first, and those that its config names.

    If the task is not known, the metrics of all tasks.
    """
    task = inputs.evaluation.get("task")
    if task is None and inputs.schema is not None and inputs.schema.of_type(Label):
        task = inputs.schema.label.task
    known = [TASKS[task]] if task in TASKS else TASKS.values()
    asked = inputs.run.get("config", {}).get("evaluation", {}).get("metrics") or ()
    return tuple(dict.fromkeys((*(metric for each in known for metric in each.metrics), *shown(asked))))


def format_of(metric: Metric) -> Callable[[float], str]:
    """The function that formats its values."""
    return formats.fraction if metric.is_fraction else formats.number


def headline(inputs: ReportInputs) -> Tiles | Note:
    """The final metrics as tiles, the first one large; before the end, those of the latest validation."""
    metrics, where = _latest(inputs)
    tiles = [
        (format_of(metric)(as_float(metrics[metric.key])), f"{where} {metric.name}")
        for metric in metrics_of(inputs)
        if metrics.get(metric.key) is not None
    ]
    if "examples" in metrics:
        tiles.append((formats.count(metrics["examples"]), f"{where} examples"))
    return Tiles(items=tiles) if tiles else Note(text="No evaluation yet.")


def _latest(inputs: ReportInputs) -> tuple[Mapping, str]:
    if inputs.evaluation:
        return inputs.evaluation, str(inputs.evaluation.get("split", "final"))
    for line in reversed(inputs.history):
        if line.get("validation"):
            return line["validation"], f"validation (step {formats.count(line['step'])})"
    return {}, ""


def results_section(inputs: ReportInputs) -> Section | None:
    """Figures and tables of the final evaluation; None before it, and where the headline holds all of it."""
    evaluation = inputs.evaluation
    if not evaluation:
        return None
    counts, classes = confusion(evaluation)
    roc, pairs = evaluation.get("roc"), evaluation.get("predicted_vs_actual")
    auc = as_float(evaluation.get("auc"))
    tables = (_class_table(counts, classes), _confused_pairs(counts, classes)) if counts.size else None
    several = tuple(_table_of_each(title, each) for title in _OF_EACH if (each := evaluation.get(title)))
    parts = [
        baseline(evaluation, counts, classes),
        _weighted(inputs),
        confusion_matrix(counts, classes) if counts.size else None,
        roc_curve(roc["false_positive_rate"], roc["true_positive_rate"], auc) if roc else None,
        predicted_vs_actual(pairs) if pairs else None,
        tables,
        several or None,
    ]
    title = f"Results on the {evaluation.get('split', 'evaluation')} split"
    return Section(title=title, parts=parts, id="results") if any(parts) else None


def _weighted(inputs: ReportInputs) -> str | None:
    """The final metrics with the weights of the examples; None where examples have none."""
    evaluation = inputs.evaluation
    said = [
        f"{metric.name} {format_of(metric)(as_float(evaluation[WEIGHTED + metric.key]))}"
        for metric in metrics_of(inputs)
        if WEIGHTED + metric.key in evaluation
    ]
    return f"With the weights of the examples: {', '.join(said)}." if said else None


def confusion(evaluation: Mapping) -> tuple[np.ndarray, list[str]]:
    """Confusion counts int64[classes, classes] (rows: actual) with class names; empty for regression."""
    counts = np.asarray(evaluation.get("confusion_matrix") or np.empty((0, 0)), dtype=np.int64)
    return counts, [str(name) for name in evaluation.get("classes") or range(len(counts))]


def confusion_table(evaluation: Mapping) -> Table | None:
    """The confusion counts as text; with many classes, the pairs that are confused most often.

    None for regression, with more classes than an evaluation counts, and where many classes have no mistake.
    """
    counts, classes = confusion(evaluation)
    if not counts.size:
        return None
    if len(classes) > _MAX_CLASSES_LISTED:
        return _confused_pairs(counts, classes)
    names = [formats.shortened(name, _CLASS_CHARACTERS) for name in classes]
    rows = [[name, *map(formats.count, row)] for name, row in zip(names, counts.tolist(), strict=True)]
    title = "Confusion matrix: a row for each actual class, a column for each predicted one"
    return Table(title=title, header=["", *names], rows=rows, numbers=range(1, len(names) + 1))


def majority(counts: np.ndarray) -> tuple[int, float]:
    """The most frequent class and the accuracy of a model that always answers it.

    Args:
      counts: [classes, classes], rows by the actual and columns by the predicted class.
    """
    largest = int(counts.sum(axis=1).argmax())
    return largest, float(counts[largest].sum() / max(1, counts.sum()))


def prior_loss(counts: np.ndarray) -> float:
    """The cross-entropy, in nats, of always predicting the shares of the classes in the split; it equals
    their entropy.

    No prediction that is the same for all examples has a lower one (T. Cover and J. Thomas, "Elements of
    Information Theory", 2006, theorem 2.6.3).

    Args:
      counts: [classes, classes], rows by the actual class.
    """
    shares = counts.sum(axis=1) / max(1, counts.sum())
    there = shares[shares > 0]
    return float(-(there * np.log(there)).sum())


def mean_rmse(evaluation: Mapping) -> float:
    """The RMSE of always predicting the mean label, which is the labels' spread. NaN if the evaluation lacks
    the numbers for it.

    R² = 1 − mse / variance, so variance = mse / (1 − R²).
    """
    if "per_target" in evaluation:  # a mean over targets has no such relation
        return np.nan
    rmse, unexplained = as_float(evaluation.get("rmse")), 1.0 - as_float(evaluation.get("r2"))
    return rmse / np.sqrt(unexplained) if rmse > 0 and unexplained > 0 else np.nan


def baseline(evaluation: Mapping, counts: np.ndarray, classes: Sequence[str]) -> Markup | None:
    """Compares the predictions with those of a model that does not look at the features."""
    if not counts.size:
        spread = mean_rmse(evaluation)
        rmse = tag("b", f"RMSE {formats.number(as_float(evaluation.get('rmse')))}.")
        mean = f" Always answering the mean would have {formats.number(spread)}."
        return None if np.isnan(spread) else tag("p", rmse, mean)
    loss, (largest, share) = as_float(evaluation.get("loss")), majority(counts)
    right = tag("b", f"{np.trace(counts):,} of {counts.sum():,} right.")
    guess = f" Always answering “{classes[largest]}” would get {formats.percent(share)} right."
    shares = formats.number(prior_loss(counts))
    of_shares = f", always answering with the classes' shares of this split {shares}."
    prior = join(" The loss is ", tag("b", formats.number(loss)), of_shares)
    return tag("p", right, guess, None if np.isnan(loss) else prior)


def _class_table(counts: np.ndarray, classes: list[str]) -> Table:
    """Precision and recall of each class; if there are many classes, only those with the lowest recall."""
    actual, predicted, right = counts.sum(axis=1), counts.sum(axis=0), np.diag(counts)
    listed, title = range(len(classes)), "Classes"
    if len(classes) > _MAX_CLASSES_LISTED:
        order = np.argsort(right / np.maximum(1, actual), kind="stable").tolist()
        listed = [at for at in order if actual[at]][:_MAX_CLASSES_LISTED]
        title = f"The {len(listed)} classes with the lowest recall"
    rows = [
        [formats.shortened(classes[at], 40), formats.count(actual[at])]
        + [formats.percent(right[at] / n[at] if n[at] else None) for n in (actual, predicted)]
        for at in listed
    ]
    header = ["class", "examples", "recall", "precision"]
    return Table(title=title, header=header, rows=rows, numbers=range(1, 4))


# Entries of an evaluation with the numbers of each class or target, and the word for one of these.
_OF_EACH = {"per_class": "class", "per_target": "target"}
_HEADER = {"rate": "rate", "r2": "R²"}


def _table_of_each(title: str, each: Mapping[str, Mapping[str, float | None]]) -> Table:
    """The numbers of each class of a multilabel, or of each target."""
    keys = list(next(iter(each.values())))
    rows = [
        [
            formats.shortened(name, 40),
            *("" if found[key] is None else formats.number(found[key]) for key in keys),
        ]
        for name, found in each.items()
    ]
    word = _OF_EACH[title]
    header = [word, *(_HEADER.get(key, key.upper()) for key in keys)]
    return Table(title=f"Each {word}", header=header, rows=rows, numbers=range(1, len(header)))


def _confused_pairs(counts: np.ndarray, classes: list[str]) -> Table | None:
    """The most frequent mistakes, if there are more than two classes."""
    mistakes = counts * (1 - np.eye(len(counts), dtype=np.int64))
    order = np.argsort(-mistakes, axis=None, kind="stable")[:_MAX_PAIRS]
    pairs = [divmod(int(at), len(counts)) for at in order if mistakes.flat[at]]
    if len(classes) < 3 or not pairs:
        return None
    rows = [[classes[row], classes[column], formats.count(mistakes[row, column])] for row, column in pairs]
    header = ["actual", "taken for", "times"]
    return Table(title="Confused most often", header=header, rows=rows, numbers={2})
