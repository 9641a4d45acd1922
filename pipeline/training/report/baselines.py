"""The network beside simple models: lines of the terminal, a section of the page, and what to do."""

import math
from collections.abc import Callable, Iterator, Mapping

from pipeline.report import formats, terminal
from pipeline.report.section import Finding, Note, Section, Table
from pipeline.training.report.inputs import as_float

# How the gate's metrics are shown: a name, and the root of a squared error, which has the label's unit.
_NAMES = {
    "auc": "ROC AUC",
    "accuracy": "accuracy",
    "log_loss": "loss",
    "brier": "Brier score",
    "mean_squared_error": "RMSE",
    "mean_absolute_error": "MAE",
}
_OF_LABELS_UNIT = ("mean_squared_error", "mean_absolute_error")  # the others lie between 0 and 1, or near
_SHOWN = {
    "binary": ("auc", "log_loss", "accuracy"),
    "multiclass": ("accuracy", "log_loss"),
    "regression": ("mean_squared_error", "mean_absolute_error"),
}
_TRY = (
    "Try more steps (--config.train.epochs), a smaller --config.global_batch, another "
    "--config.optimizer.learning_rate and, if no best checkpoint is kept, --config.train.keep_best=val_loss."
)
_ADVICE = {  # for the first of these that the network loses to
    "prior": f"The network has learned nothing that helps. {_TRY}",
    "linear": f"The network has learned less than a linear model of its inputs. {_TRY} If it stays so, take "
    "the linear model.",
    "boosting": f"Trees find more in these columns. {_TRY} If it stays so, take the trees.",
}


def lines(found: Mapping) -> Iterator[str]:
    """Yields what baselines.json holds, for a terminal of 80 columns: of the intervals, those of the
    differences. The first line begins with `baselines`.
    """
    notes = found.get("notes") or ()
    if not found.get("baselines"):
        yield from (f"baselines  none: {note}" for note in notes)
        return
    yield f"baselines  {_on_what(found)}, in {formats.duration(found.get('seconds'))}"
    yield from (f"    {line}" for line in terminal.aligned(_rows(found, value=_value)))
    yield from (f"           {note}" for note in notes)
    yield from (f"note: {finding}" for finding in (*leaks(found), *losses(found)))


def baselines_section(found: Mapping) -> Section | None:
    """A table of the network and the baselines, with intervals; None where there are none."""
    if not found.get("baselines"):
        return None
    header, *rows = _rows(found, value=_with_interval)
    confidence = formats.percent(as_float(found.get("confidence")))
    explained = f"In brackets: two-sided intervals of {confidence}, as the gate of retraining has them."
    notes = [Note(text=note) for note in found.get("notes") or ()]
    return Section(
        title="Beside simple models",
        parts=[f"{_on_what(found)}.", Table(header=header, rows=rows), Note(text=explained), *notes],
        id="baselines",
    )


def losses(found: Mapping) -> Iterator[Finding]:
    """Yields a finding where the network is worse than some baseline by more than chance."""
    metric = str(found.get("metric"))
    lost = {
        each["name"]: f"{each['title']} ({_value(metric, each['metrics'][metric])})"
        for each in found.get("baselines") or ()
        if as_float(each["network_better_by"][metric]["high"]) < 0
    }
    if lost:
        own = f"{_NAMES[metric]} {_value(metric, found['network'][metric])} on the {found['split']} split"
        yield Finding(
            text=f"Loses to {' and '.join(lost.values())} by more than chance: {own}.",
            advice=next(advice for name, advice in _ADVICE.items() if name in lost),
        )


def leaks(found: Mapping) -> Iterator[Finding]:
    """Yields a finding where one column alone answers nearly all rows, as the label itself would."""
    alone = found.get("alone") or ()
    if alone:
        metric = str(found.get("metric"))
        listed = ", ".join(f"{each['column']} ({formats.number(each['score'])})" for each in alone)
        score = "R²" if metric == "mean_squared_error" else _NAMES[metric]
        yield Finding(
            text=f"One column alone gives the label away, by its {score}: {listed}.",
            advice="If it is known only after the label is, the model is of no use: it will lack the column, "
            "or the truth in it. Move it from 'features' to 'ignore' in the schema (beam_jobs.infer_schema "
            "--ignore=COLUMN), convert again and train anew.",
        )


def _on_what(found: Mapping) -> str:
    examples, rows = (_part(found, name) for name in ("examples", "rows"))
    return f"on {examples} examples of the {found.get('split')} split, fitted to {rows} training rows"


def _part(found: Mapping, name: str) -> str:
    """`1,000`, or `1,000 of 5,000` where it is a sample."""
    some, of_all = found.get(name), found.get(f"{name}_of")
    return formats.count(some) if some == of_all else f"{formats.count(some)} of {formats.count(of_all)}"


def _rows(found: Mapping, *, value: Callable[[str, Mapping], str]) -> list[list[str]]:
    """A header, the network, and each baseline with how much better the network is by the first metric."""
    metrics, first = _SHOWN[found["task"]], found["metric"]
    rows = [["", *(_NAMES[name] for name in metrics), f"network better by ({_NAMES[first]})"]]
    rows.append(["network", *(value(name, found["network"][name]) for name in metrics), ""])
    for each in found["baselines"]:
        values = [value(name, each["metrics"][name]) for name in metrics]
        rows.append([each["title"], *values, _difference(found, each, first)])
    return rows


def _with_interval(metric: str, value: Mapping) -> str:
    low, high = (_number(metric, as_float(value[end])) for end in ("low", "high"))
    return f"{_value(metric, value)} [{low}, {high}]"


def _value(metric: str, value: Mapping) -> str:
    return _number(metric, as_float(value["value"]))


def _number(metric: str, value: float) -> str:
    """A root of a squared error; NaN is what is not known."""
    if math.isnan(value):
        return formats.NOT_KNOWN
    if metric == "mean_squared_error":
        return formats.number(math.sqrt(value))
    return formats.number(value) if metric == "mean_absolute_error" else formats.fraction(value)


def _difference(found: Mapping, baseline: Mapping, metric: str) -> str:
    """`+0.0123 [-0.0010, +0.0260]`, with the digits of the metric itself.

    Squared errors are shown as RMSEs: a² − b² = (a − b)(a + b).
    """
    difference = baseline["network_better_by"][metric]
    numbers = [as_float(difference[name]) for name in ("value", "low", "high")]
    if metric == "mean_squared_error":
        roots = [math.sqrt(as_float(of[metric]["value"])) for of in (found["network"], baseline["metrics"])]
        numbers = [number / (sum(roots) or math.nan) for number in numbers]
    form = "+.4g" if metric in _OF_LABELS_UNIT else "+.4f"
    value, low, high = (formats.NOT_KNOWN if math.isnan(each) else f"{each:{form}}" for each in numbers)
    return f"{value} [{low}, {high}]"
