"""Findings: what a careful reader would notice in the numbers, and what to do about it."""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from pipeline.data.dataset.manifest import TRAIN
from pipeline.data.dataset.statistics import FeatureStatistics
from pipeline.report import formats
from pipeline.report.section import Finding, Section
from pipeline.training.experiment.optimizer import WARMUP_ADVICE, warmup_warning
from pipeline.training.report.baselines import leaks, losses
from pipeline.training.report.inputs import ReportInputs, as_float, curve
from pipeline.training.report.results import confusion, majority, prior_loss
from pipeline.training.report.run import certificate_command, is_starved, mean_input_wait
from pipeline.training.tasks.task import LOSS

_REJECTED_LIMIT = 0.01
_MISSING_LIMIT = 0.5
_MAX_NAMES = 6
_AFTER_BEST = 2  # evaluations after the best, at the end of a run: one alone may be chance
_RISE = 0.01  # as a part of the best loss
_EXPORTED = "The best step is what is exported"
_TO_EXPORT = "--config.train.keep_best=val_loss exports the best step"
_FEWER = "fewer steps (--config.train.steps, or --config.train.patience=10 to stop by itself), "
_CLEAR_FALL = 0.05  # as a part of the training loss at the start, or of the validation loss at the end
_NOT_FINITE = (
    "Lower --config.optimizer.learning_rate, or train with --precision=float32, in an empty --workdir; "
    "or look for extreme values in the data."
)
_FEW_ROWS = 30  # in validation: the mean loss of fewer is off by a fifth of a row's spread or more
_EVALUATIONS = 4  # fewer evaluations show no trend
_LATE = 0.75  # the part of the evaluations after which a gain is a late one
_LATE_GAIN = 0.1  # as a part of the whole gain


def findings_section(inputs: ReportInputs) -> Section | None:
    """The findings as a list; None where there are none."""
    train = _config(inputs.run, "train")
    is_best_kept, stops = bool(train.get("keep_best")), bool(train.get("patience"))
    findings = [
        *leaks(inputs.baselines),
        *_training(inputs),
        *overfitting(inputs.history, is_best_kept=is_best_kept, stops_by_itself=stops),
        *improving(inputs.history),
        *few_validated(inputs.history, is_best_kept=is_best_kept),
        *late_start(inputs.run),
        *verdict(inputs.evaluation),
        *losses(inputs.baselines),
        *_data(inputs),
    ]
    return (
        Section(title="Worth a look", parts=findings, style="findings", id="findings") if findings else None
    )


def verdict(evaluation: Mapping) -> Iterator[Finding]:
    """Findings of an evaluation against a model, or against the split that it was scored on."""
    if LOSS.key in evaluation and not math.isfinite(as_float(evaluation[LOSS.key])):
        split = evaluation.get("split", "final")
        yield Finding(text=f"The {split} loss is not a finite number.", advice=_NOT_FINITE)
    r2 = as_float(evaluation.get("r2"))
    if r2 < 0:
        yield Finding(
            text=f"R² is {formats.number(r2)}: always answering the mean label would be nearer.",
            advice="Training was too short or its steps too large, or the features do not tell the label.",
        )
    counts, classes = confusion(evaluation)
    if counts.size:
        yield from _classes(counts, classes)
        yield from _loss(as_float(evaluation.get("loss")), prior_loss(counts))


def _config(run: Mapping, section: str) -> Mapping:
    return run.get("config", {}).get(section, {})


def improving(history: Sequence[Mapping]) -> Iterator[Finding]:
    """Says that a run stopped while its validation still got better; nothing where it did not.

    It did where the last evaluation is the best one, and the last quarter gained more than a tenth of what
    the whole run did, and more than 1% of the loss.

    Args:
      history: as for `overfitting`.
    """
    losses = np.asarray(curve(history, LOSS.key, validation=True)[1])
    if len(losses) < _EVALUATIONS or not np.isfinite(losses).all() or losses.argmin() < len(losses) - 1:
        return
    before, last = losses[int(_LATE * (len(losses) - 1))], losses[-1]
    if before - last > max(_LATE_GAIN * (losses[0] - last), _RISE * abs(last)):
        yield Finding(
            text=f"Training stopped while validation still got better (loss {formats.number(before)}, then "
            f"{formats.number(last)} in the last quarter).",
            advice="Train longer, with more --config.train.epochs or --config.train.steps.",
        )


def not_finite(history: Sequence[Mapping]) -> Iterator[Finding]:
    """Says at which step a loss was not a finite number first, in training or in validation."""
    for name, validation in (("training", False), ("validation", True)):
        steps, losses = curve(history, LOSS.key, validation=validation)
        broken = [step for step, loss in zip(steps, losses, strict=True) if not math.isfinite(loss)]
        if broken:
            yield Finding(
                text=f"The {name} loss is not a finite number from step {formats.count(broken[0])} on.",
                advice=_NOT_FINITE,
            )


def few_validated(history: Sequence[Mapping], *, is_best_kept: bool) -> Iterator[Finding]:
    """Says that so few rows were validated that chance decides which step is the best; nothing otherwise."""
    rows = next((point["validation"].get("examples") for point in history if "validation" in point), None)
    if is_best_kept and rows is not None and rows < _FEW_ROWS:
        yield Finding(
            text=f"The best step was chosen on {formats.count(rows)} rows of validation: chance decides "
            "between steps.",
            advice="Validate on more rows (beam_jobs.convert --splits), or keep the last step: "
            "--config.train.keep_best=''.",
        )


def late_start(run: Mapping) -> Iterator[Finding]:
    """Says that the warm-up took most of the run; `run` is its run.json."""
    steps, total = _config(run, "optimizer").get("warmup_steps"), run.get("total_steps")
    if steps and total and (text := warmup_warning(steps, total)):
        yield Finding(text=f"{text[0].upper()}{text[1:]}.", advice=f"{WARMUP_ADVICE}.")


def overfitting(
    history: Sequence[Mapping], *, is_best_kept: bool = False, stops_by_itself: bool = False
) -> Iterator[Finding]:
    """Says since which step validation got worse, and what the training loss tells about why; nothing where
    it did not happen.

    It happened if all evaluations in the second half after the best one, at least two, have a loss more than
    1% above the best loss: right after the best one the loss may rise slowly. The model learns by heart if
    the training loss went on falling, at least 5% in all, to well below the validation loss. If the training
    loss is within 5% of its start, the model hardly learns.

    Args:
      history: lines of `history.jsonl`: `step`, `loss`, and `validation` with its own `loss`.
    """
    steps, losses = (np.asarray(each) for each in curve(history, LOSS.key, validation=True))
    if not losses.size or not np.isfinite(losses).all():
        return
    best = int(losses.argmin())
    after = losses[best + 1 :]
    late = after[-max(_AFTER_BEST, len(after) // 2) :]
    if len(after) < _AFTER_BEST or late.min() <= losses[best] * (1 + _RISE):
        return
    worse = (
        f"Validation got worse from step {formats.count(int(steps[best]))} on (loss "
        f"{formats.number(losses[best])}, then {formats.number(losses[-1])})"
    )
    trained = np.asarray(curve(history, LOSS.key)[1])
    at_best, at_end = (_trained(history, until=step) for step in (steps[best], steps[-1]))
    if _is_level(trained):
        yield Finding(
            text=f"{worse} while the training loss hardly fell ({formats.number(trained[0])}, then "
            f"{formats.number(trained[-1])}).",
            advice="The model learns too slowly: raise --config.optimizer.learning_rate, or the factors in "
            "--config.optimizer.rates.",
        )
    elif at_end < at_best and _is_clear(trained[0], at_end) and _is_clear(losses[-1], at_end):
        yield Finding(
            text=f"{worse} while training got better "
            f"({formats.number(at_best)}, then {formats.number(at_end)}).",
            advice="The model learns the training examples by heart. "
            f"{_EXPORTED if is_best_kept else _TO_EXPORT}; {'' if stops_by_itself else _FEWER}"
            "more weight decay or dropout, or more data help.",
        )


def _is_clear(above: float, below: float) -> bool:
    return above - below >= _CLEAR_FALL * abs(above)


def _is_level(trained: np.ndarray) -> bool:
    """Returns whether no training loss is clearly below the first one, nor the last one clearly above."""
    return bool(
        trained.size
        and np.isfinite(trained).all()
        and not _is_clear(trained[0], trained.min())
        and not _is_clear(trained[-1], trained[0])
    )


def _trained(history: Sequence[Mapping], *, until: float) -> float:
    """The last training loss that was logged up to a step; NaN where none was."""
    before = [loss for step, loss in zip(*curve(history, LOSS.key), strict=True) if step <= until]
    return before[-1] if before else np.nan


def _training(inputs: ReportInputs) -> Iterator[Finding]:
    yield from not_finite(inputs.history)
    if is_starved(inputs.history):
        waited = formats.percent(mean_input_wait(inputs.history))
        command = certificate_command(inputs) or "python -m pipeline.feed_rate"
        yield Finding(
            text=f"Starved: the accelerator waited {waited} of the time.", advice=f"What to change: {command}"
        )


def _data(inputs: ReportInputs) -> Iterator[Finding]:
    if inputs.damaged:
        yield Finding(
            text=f"Damaged records with {formats.count(inputs.damaged['rows'])} rows were left out.",
            advice="They are listed below: restore the files before the next run.",
        )
    manifest = inputs.manifest
    given, what = inputs.given
    if manifest is not None and manifest.rows_rejected > _REJECTED_LIMIT * given:
        share = formats.percent(manifest.rows_rejected / given)
        yield Finding(text=f"{share} of the {what} were rejected.", advice="The reasons stand below.")
    if inputs.statistics:
        split = inputs.statistics.get(TRAIN) or next(iter(inputs.statistics.values()))
        features = split.features.values()
        yield from _named(
            "Missing in more than half of the rows",
            [each.name for each in features if each.missing_fraction > _MISSING_LIMIT],
            "Is the column read as intended?",
        )
        yield from _named(
            "The same value in every row",
            [each.name for each in features if _is_constant(each)],
            "The model cannot learn from these.",
        )


def _is_constant(feature: FeatureStatistics) -> bool:
    if not feature.present or feature.missing:
        return False  # values that are sometimes missing still tell rows apart
    if feature.numeric is not None:
        return feature.numeric.minimum == feature.numeric.maximum
    return feature.values is not None and feature.values.complete and feature.values.distinct == 1


def _classes(counts: np.ndarray, classes: Sequence[str]) -> Iterator[Finding]:
    """Findings about counts [classes, classes]; rows are actual classes, columns predicted ones."""
    there = counts.sum(axis=1) > 0
    yield from _named(
        "The split has no example of",
        [name for name, is_there in zip(classes, there, strict=True) if not is_there],
        "Its metrics say nothing of them. A larger part of the rows (--splits of convert) may have some.",
    )
    if there.sum() < 2:
        return
    largest, share = majority(counts)
    if np.trace(counts) / counts.sum() <= share:
        yield Finding(
            text=f"Always answering “{classes[largest]}” is right as often, or more often.",
            advice="The features may not tell the classes apart, or training was too short.",
        )
    never = [name for name, n in zip(classes, counts.sum(axis=0), strict=True) if not n]
    yield from _named("Never predicted", never, "Such classes may have too few examples.")


def _loss(loss: float, prior: float) -> Iterator[Finding]:
    if prior and loss >= prior:
        yield Finding(
            text=f"The loss, {formats.number(loss)}, is not below {formats.number(prior)}, that of always "
            "answering with the classes' shares.",
            advice="Training was too short or its steps too large; or it learned by heart and is too sure: "
            "train less, or with --config.train.label_smoothing=0.1.",
        )


def _named(what: str, names: Sequence[str], advice: str) -> Iterator[Finding]:
    """A finding about the first of the names, and the number of others; nothing if there are no names."""
    if names:
        more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
        listed = ", ".join(formats.shortened(name, 40) for name in names[:_MAX_NAMES])
        yield Finding(text=f"{what}: {listed}{more}.", advice=advice)
