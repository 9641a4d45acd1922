"""The model in the report: the headline, final metrics, what it confuses."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from pipeline.report import formats
from pipeline.report.charts import confusion_matrix, predicted_vs_actual, roc_curve
from pipeline.report.html import Markup, join, table, tag
from pipeline.training.report.inputs import ReportInputs, as_float, curve
from pipeline.training.tasks.registry import TASKS, WEIGHTED
from pipeline.training.tasks.task import LOSS, Metric

_MAX_CLASSES_LISTED = 12
_MAX_PAIRS = 6


def headline(inputs: ReportInputs) -> Markup:
    """The final metrics as tiles, the first one large; before the end, the latest validation's."""
    metrics, where = _latest(inputs)
    tiles = [
        _tile(written(metric)(as_float(metrics[metric.key])), f"{where} {metric.name}")
        for metric in metrics_of(inputs)
        if metrics.get(metric.key) is not None
    ]
    if "examples" in metrics:
        tiles.append(_tile(formats.count(metrics["examples"]), f"{where} examples"))
    return tag("div", *tiles, class_="tiles") if tiles else tag("p", "No evaluation yet.", class_="note")


def _latest(inputs: ReportInputs) -> tuple[Mapping, str]:
    if inputs.evaluation:
        return inputs.evaluation, str(inputs.evaluation.get("split", "final"))
    for line in reversed(inputs.history):
        if line.get("validation"):
            return line["validation"], f"validation (step {formats.count(line['step'])})"
    return {}, ""


def _tile(value: str, name: str) -> Markup:
    return tag("div", tag("strong", value), tag("span", name), class_="tile")


def results_section(inputs: ReportInputs) -> Markup | None:
    """Figures and tables of the final evaluation; None before there is one."""
    evaluation = inputs.evaluation
    if not evaluation:
        return None
    counts, classes = confusion(evaluation)
    roc, pairs = evaluation.get("roc"), evaluation.get("predicted_vs_actual")
    figures = [
        confusion_matrix(counts, classes) if counts.size else None,
        roc_curve(roc["false_positive_rate"], roc["true_positive_rate"], as_float(evaluation.get("auc")))
        if roc
        else None,
        predicted_vs_actual(pairs) if pairs else None,
    ]
    tables = [
        _class_table(counts, classes) if counts.size else None,
        _confused_pairs(counts, classes) if len(classes) > 2 else None,
    ]
    return tag(
        "section",
        tag("h2", f"Results on the {evaluation.get('split', 'evaluation')} split"),
        baseline(evaluation, counts, classes),
        _weighted(inputs),
        tag("div", *figures, tag("div", *tables), class_="figures"),
        id="results",
    )


def _weighted(inputs: ReportInputs) -> Markup | None:
    """The final metrics, of which each example has its weight; None where examples have none."""
    evaluation = inputs.evaluation
    told = [
        f"{metric.name} {written(metric)(as_float(evaluation[WEIGHTED + metric.key]))}"
        for metric in metrics_of(inputs)
        if WEIGHTED + metric.key in evaluation
    ]
    return tag("p", f"With the weights of the examples: {', '.join(told)}.") if told else None


def confusion(evaluation: Mapping) -> tuple[np.ndarray, list[str]]:
    """Confusion counts int64[classes, classes] (rows: actual) with class names; empty for regression."""
    counts = np.asarray(evaluation.get("confusion_matrix") or np.empty((0, 0)), dtype=np.int64)
    names = [str(name) for name in evaluation.get("classes") or range(len(counts))]
    return counts, names


def _class_table(counts: np.ndarray, classes: list[str]) -> Markup:
    """Precision and recall of each class; of many classes, only those with the lowest recall."""
    actual, predicted, right = counts.sum(axis=1), counts.sum(axis=0), np.diag(counts)
    recall = right / np.maximum(1, actual)
    listed = range(len(classes))
    title = "Classes"
    if len(classes) > _MAX_CLASSES_LISTED:
        listed = [i for i in np.argsort(recall, kind="stable").tolist() if actual[i]][:_MAX_CLASSES_LISTED]
        title = f"The {len(listed)} classes with the lowest recall"
    rows = [
        [
            formats.shortened(classes[i], 40),
            formats.count(actual[i]),
            formats.percent(recall[i]) if actual[i] else formats.NOT_KNOWN,
            formats.percent(right[i] / predicted[i]) if predicted[i] else formats.NOT_KNOWN,
        ]
        for i in listed
    ]
    body = table(["class", "examples", "recall", "precision"], rows, numbers=frozenset({1, 2, 3}))
    return join(tag("h3", title), body)


def _confused_pairs(counts: np.ndarray, classes: list[str]) -> Markup | None:
    """The mistakes made most often."""
    mistakes = counts * (1 - np.eye(len(counts), dtype=np.int64))
    order = np.argsort(-mistakes, axis=None, kind="stable")[:_MAX_PAIRS]
    pairs = [divmod(int(i), len(counts)) for i in order if mistakes.flat[i]]
    if not pairs:
        return None
    rows = [[classes[row], classes[column], formats.count(mistakes[row, column])] for row, column in pairs]
    body = table(["actual", "taken for", "times"], rows, numbers=frozenset({2}))
    return join(tag("h3", "Confused most often"), body)


# --- Which metrics the report shows of a run, by its task, and how their values are written.


def metrics_of(inputs: ReportInputs) -> tuple[Metric, ...]:
    """Those of the run's task, the most telling first; those of all tasks where the task is not known."""
    task = inputs.evaluation.get("task")
    if task is None and inputs.schema is not None:
        task = next((feature.task for feature in inputs.schema.features if feature.kind == "label"), None)
    if task in TASKS:
        return TASKS[task].metrics
    return tuple(dict.fromkeys(metric for known in TASKS.values() for metric in known.metrics))


def written(metric: Metric) -> Callable[[float], str]:
    """The function that writes its values."""
    return formats.fraction if metric.is_fraction else formats.number


# --- What answers without looking at the features would score on the same split: a model should be better.


def majority(counts: np.ndarray) -> tuple[int, float]:
    """The most frequent class and the accuracy of a model that always answers it.

    Args:
      counts: [classes, classes], rows by the actual and columns by the predicted class.
    """
    largest = int(counts.sum(axis=1).argmax())
    return largest, float(counts[largest].sum() / max(1, counts.sum()))


def prior_loss(counts: np.ndarray) -> float:
    """The cross-entropy, in nats, of always answering with the classes' shares of the split: their entropy.

    No answer that is the same for all examples costs less (T. Cover and J. Thomas, "Elements of Information
    Theory", 2006, theorem 2.6.3).

    Args:
      counts: [classes, classes], rows by the actual class.
    """
    shares = counts.sum(axis=1) / max(1, counts.sum())
    there = shares[shares > 0]
    return float(-(there * np.log(there)).sum())


def mean_rmse(evaluation: Mapping) -> float:
    """The RMSE of always answering the mean label: their spread. NaN where the evaluation does not tell it.

    R² = 1 − mse / variance, so variance = mse / (1 − R²).
    """
    rmse, unexplained = as_float(evaluation.get("rmse")), 1.0 - as_float(evaluation.get("r2"))
    return rmse / np.sqrt(unexplained) if rmse > 0 and unexplained > 0 else np.nan


def baseline(evaluation: Mapping, counts: np.ndarray, classes: Sequence[str]) -> Markup | None:
    """A sentence of how many answers are right, or how far off, beside those without features."""
    if counts.size:
        return _of_classes(as_float(evaluation.get("loss")), counts, classes)
    spread = mean_rmse(evaluation)
    if np.isnan(spread):
        return None
    rmse = tag("b", formats.number(as_float(evaluation["rmse"])))
    return tag("p", "RMSE ", rmse, f". Always answering the mean would have {formats.number(spread)}.")


def _of_classes(loss: float, counts: np.ndarray, classes: Sequence[str]) -> Markup:
    largest, share = majority(counts)
    right, total = int(np.trace(counts)), int(counts.sum())
    guess = f"Always answering “{classes[largest]}” would get {formats.percent(share)} right."
    parts = [tag("b", f"{right:,}"), f" of {total:,} right. ", guess]
    if not np.isnan(loss):
        prior = f", always answering with the classes' shares {formats.number(prior_loss(counts))}."
        parts += [" The loss is ", tag("b", formats.number(loss)), prior]
    return tag("p", *parts)


# --- Whether validation got worse while training got better.


_AFTER_BEST = 2  # evaluations: one alone may be chance
_RISE = 0.01  # of the best loss


def overfitting(history: tuple[Mapping, ...]) -> Iterator[tuple[str, str]]:
    """A sentence that says since which step, and one that says what to do; none where it did not happen.

    It happened where all evaluations after the best one, two at least, have a loss more than 1% above it,
    while the training loss sank.

    Args:
      history: lines of `history.jsonl`: `step`, `loss`, and `validation` with its own `loss`.
    """
    steps, losses = (np.asarray(each) for each in curve(history, LOSS.key, validation=True))
    if not losses.size or not np.isfinite(losses).all():
        return
    best = int(losses.argmin())
    after = losses[best + 1 :]
    if len(after) < _AFTER_BEST or after.min() <= losses[best] * (1 + _RISE):
        return
    at_best, at_end = _trained(history, until=steps[best]), _trained(history, until=steps[-1])
    if at_end < at_best:
        yield (
            f"Validation got worse from step {formats.count(int(steps[best]))} on (loss "
            f"{formats.number(losses[best])}, then {formats.number(losses[-1])}) while training got better "
            f"({formats.number(at_best)}, then {formats.number(at_end)}).",
            "The model learns the training examples by heart. --config.train.keep_best=val_loss exports the "
            "best step; fewer steps, more weight decay or dropout, or more data help.",
        )


def _trained(history: tuple[Mapping, ...], *, until: float) -> float:
    """The last training loss that was logged up to a step; NaN where none was."""
    steps, losses = curve(history, LOSS.key)
    before = [loss for step, loss in zip(steps, losses, strict=True) if step <= until]
    return before[-1] if before else np.nan
