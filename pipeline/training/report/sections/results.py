"""The model in the report: the headline, final metrics, what it confuses."""

from collections.abc import Mapping

import numpy as np

from pipeline.training.report.drawing import formats
from pipeline.training.report.drawing.charts import predicted_vs_actual, roc_curve
from pipeline.training.report.drawing.heat_map import confusion_matrix
from pipeline.training.report.drawing.markup import Markup, join, table, tag
from pipeline.training.report.sections.baselines import baseline
from pipeline.training.report.sections.inputs import ReportInputs, as_float
from pipeline.training.report.sections.metrics import metrics_of, written
from pipeline.training.tasks.metrics import WEIGHTED

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
