"""DECIDE: one decision of what parity, the gate and the infra check found."""

from collections.abc import Iterator, Mapping

from pipeline.data.dataset import statistics
from pipeline.data.dataset.manifest import STATISTICS_FILE_NAME
from pipeline.data.dataset.splits import TRAIN
from pipeline.data.errors import InputError
from pipeline.release.cycles.records import ended
from pipeline.release.cycles.records.ended import REJECT
from pipeline.release.cycles.stages.job import Job
from pipeline.release.cycles.stages.prior import prior_of
from pipeline.release.gate.scored import Scored
from pipeline.release.gate.verdict import judge
from pipeline.release.holdout.answers import Answers
from pipeline.release.holdout.answers import load as load_answers


def decide(job: Job) -> dict:
    """The decision with its reasons, and the whole verdict of the gate."""
    answers = load_answers(job.answers)
    _check_asked(job, answers)
    verdict = judge(scored(job, answers), job.settings.gate, reuse=reuses(job))
    refused = [*_refused("parity", job.said("parity")), *_refused("infra check", job.said("infra"))]
    return {
        "decision": REJECT if refused else verdict.decision,
        "reasons": [*refused, *verdict.reasons],
        "gate": verdict.to_json(),
    }


def _check_asked(job: Job, answers: Answers) -> None:
    """Raises InputError for answers of other models or rows than this cycle's: the file has been replaced."""
    asked = job.said("export")["export_digest"], job.said("evaluate")["holdout_digest"]
    if (answers.models["challenger"], answers.digest) != asked:
        raise InputError(
            f"answers {job.answers}",
            received="those of another model, or to other rows",
            expected=f"those of the export of cycle {job.id} to its holdout",
            action="Delete it and evaluate.json beside it; then run `pipeline.retrain reconcile --retry`.",
        )


def scored(job: Job, answers: Answers) -> Scored:
    """Answers as the gate takes them. What a first model must beat comes from the training rows alone.

    Where rows weigh, it comes from the holdout: statistics count every training row the same, and what
    predicts that rate is easily beaten.
    """
    measured = statistics.read(job.export / STATISTICS_FILE_NAME)[TRAIN]
    is_weighted = answers.weights is not None
    return Scored(
        task=answers.task,
        labels=answers.labels,
        predictions=answers.predictions,
        weights=answers.weights,
        clusters=answers.clusters,
        slices=answers.slices,
        prior=None if is_weighted else prior_of(measured, job.training.dataset.schema.label),
    )


def reuses(job: Job) -> int:
    """How many cycles have decided by rows of this holdout: by a span of it, converted as it may be."""
    own = _judged_by(job.plan)
    return sum(
        not own.isdisjoint(_judged_by(cycle.plan))
        for cycle in ended.cycles(job.root)
        if cycle.id != job.id and (cycle.folder / "decide.json").exists()
    )


def _judged_by(plan: Mapping) -> set[str]:
    """Names and raw contents of the holdout's spans: one that was corrected has most of its rows still."""
    held = [span for span in plan["spans"] if "holdout" in span["roles"]]
    return {f"{key}={span[key]}" for span in held for key in ("name", "raw_digest")}


def _refused(gate: str, said: Mapping) -> Iterator[str]:
    """The reasons of a gate that must be passed."""
    if not said["passed"]:
        yield from (f"{gate}: {reason}" for reason in said["reasons"])
