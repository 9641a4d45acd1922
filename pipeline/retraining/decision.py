"""DECIDE, PUBLISH and VERIFY: the last stages of a cycle, from the results of the checks to a version."""

from collections.abc import Iterator, Mapping

from pipeline.base.errors import InputError
from pipeline.data.dataset import records, statistics
from pipeline.data.dataset.manifest import STATISTICS_FILE_NAME, TRAIN
from pipeline.exporting import requests as requests_lib
from pipeline.gate.scores import Scored
from pipeline.gate.verdict import evaluate
from pipeline.publishing import publish as publish_lib
from pipeline.publishing import versions
from pipeline.retraining import documents, store
from pipeline.retraining import job as job_lib
from pipeline.retraining import records as records_lib
from pipeline.retraining.champion import PUBLISHED, TAKEN_BACK
from pipeline.retraining.holdout import SCORED_AGAIN, Answers
from pipeline.retraining.holdout import load as load_answers
from pipeline.retraining.job import Job
from pipeline.retraining.records import PROMOTE, REJECT
from pipeline.retraining.stages import check_serving, prior_of


def decide(job: Job) -> dict:
    """Decides from the results of parity, the gate and the infra check; returns the decision and reasons."""
    answers = load_answers(job.answers)
    _check_asked(job, answers)
    verdict = evaluate(scored(job, answers), job.settings.gate, reuse=reuses(job))
    refused = [*_refused("parity", job.result("parity")), *_refused("infra check", job.result("infra"))]
    return {
        "decision": REJECT if refused else verdict.decision,
        "reasons": [*refused, *verdict.reasons],
        "gate": verdict.to_json(),
    }


def _check_asked(job: Job, answers: Answers) -> None:
    """Raises InputError unless the answers are those of this cycle's models to this cycle's rows."""
    expected = job.result("export")["export_digest"], job.result("evaluate")["holdout_digest"]
    if (answers.models["challenger"], answers.digest) != expected:
        raise InputError(
            f"answers {job.answers}",
            received="those of another model, or to other rows",
            expected=f"those of the export of cycle {job.id} to its holdout",
            action=SCORED_AGAIN,
        )


def scored(job: Job, answers: Answers) -> Scored:
    """Returns the answers in the form that the gate takes, with the prior of the training rows.

    Where rows have weights, the prior comes from the holdout: statistics ignore the weights of training rows,
    and their prior would be easy to beat.
    """
    measured = statistics.read(job.export / STATISTICS_FILE_NAME)[TRAIN]
    is_weighted = answers.weights is not None
    prior = prior_of(measured, job.training.dataset.schema.label)
    return Scored(
        task=answers.task,
        labels=answers.labels,
        predictions=answers.predictions,
        weights=answers.weights,
        clusters=answers.clusters,
        slices=answers.slices,
        prior=None if is_weighted else prior,
        rates=prior if answers.task in ("binary", "multiclass") else None,
        class_names=answers.classes,
        content=answers.content,
    )


def reuses(job: Job) -> int:
    """Counts the earlier cycles whose decision used a span of this holdout, however the span was
    converted.
    """
    own = _holdout_spans(job.plan)
    return sum(
        not own.isdisjoint(_holdout_spans(cycle.plan))
        for cycle in records_lib.cycle_history(job.root)
        if cycle.id != job.id and (cycle.folder / "decide.json").exists()
    )


def _holdout_spans(plan: Mapping) -> set[str]:
    """Returns names and raw digests of the holdout's spans. The name counts too, because a corrected span
    still has most of its rows.
    """
    return {
        f"{key}={span[key]}"
        for span in records_lib.spans_of(plan, "holdout")
        for key in ("name", "raw_digest")
    }


def _refused(check: str, result: Mapping) -> Iterator[str]:
    """Yields the reasons of a check that failed."""
    if not result["passed"]:
        yield from (f"{check}: {reason}" for reason in result["reasons"])


# --- PUBLISH: a promoted model becomes the next version.


def publish(job: Job) -> dict:
    """Publishes a promoted model; returns the version, or why there is none.

    Raises:
      HeldError: the file HOLD appeared since the cycle started.
      InputError: the export is not the one that was evaluated.
    """
    decided = job.result("decide")
    if decided["decision"] != PROMOTE:
        return {"version": None, "why": f"the decision is {decided['decision']}"}
    if not job.publishes:
        return {"version": None, "why": "a backfill publishes only with --publish"}
    job_lib.check_held(job)
    return {"version": put_version(job, promoted_by="")}


def put_version(job: Job, *, promoted_by: str) -> int:
    """Publishes the cycle's export with its documents, also to the store; returns the version.

    A second call returns the same version.

    Args:
      promoted_by: the reason that a person gave, where the gate did not promote it.

    Raises:
      InputError: the export is not the one that was evaluated.
    """
    at = job.now()
    _check_evaluated(job)
    job.root.serving.mkdir(parents=True, exist_ok=True)
    version = publish_lib.publish(
        job.export,
        job.root.serving,
        cycle=job.id,
        documents={
            documents.CARD_FILE_NAME: documents.write_card(job, promoted_by=promoted_by).encode(
                errors="backslashreplace"
            ),
            documents.LINEAGE_FILE_NAME: documents.write_lineage(job).encode(),
        },
        at=at.isoformat(),
    )
    job.log(PUBLISHED, version=version, why=promoted_by or "the gate promoted it")
    store.follow(job.root, job.settings, at=at)
    return version


def _check_evaluated(job: Job) -> None:
    """Raises InputError where the export is not the one that was evaluated."""
    evaluated, there = job.result("export")["export_digest"], records.open_export(job.export)["digest"]
    if evaluated != there:
        raise InputError(
            f"export {job.export}",
            received=f"digest {there[:12]}",
            expected=f"digest {evaluated[:12]}, which cycle {job.id} has evaluated",
            action="Restore it from a copy. The results of the stages have its digest.",
        )


# --- VERIFY: a published version serves, or it is taken back.


def verify(job: Job) -> dict:
    """Checks the published version with a fresh process, and with the server of config.serving_url.

    A version that fails is taken back: the one before is the newest again.
    """
    version = job.result("publish")["version"]
    if version is None:
        return {"version": None, "passed": True}
    return {"version": version, **verify_version(job, version)}


def verify_version(job: Job, version: int) -> dict:
    """Checks a version where it is served; takes it back where it fails."""
    reasons = _failures(job, version)
    if reasons:
        publish_lib.take_back(job.root.serving, version, reason="; ".join(reasons), at=job.now().isoformat())
        job.log(TAKEN_BACK, version=version, why="; ".join(reasons))
        store.follow(job.root, job.settings, at=job.now())
    return {"passed": not reasons, "reasons": reasons}


def _failures(job: Job, version: int) -> list[str]:
    if version not in versions.versions(job.root.serving):  # a killed process took it back
        return ["it failed before, and was taken back"]
    directory = versions.path_of(job.root.serving, version)
    found = [*check_serving(job, directory, against=None).reasons]
    if url := job.settings.serving_url:
        from pipeline.serving import servers

        found += servers.ask(url, requests_lib.load(job.export), model=job.root.name, version=version).reasons
    return found
