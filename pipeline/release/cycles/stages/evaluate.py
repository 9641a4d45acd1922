"""EVALUATE: challenger, champion and anchor answer every row of the holdout."""

from pipeline.release.cycles.stages.job import Job
from pipeline.release.holdout import score


def evaluate(job: Job) -> dict:
    """Which models answered, and where; raises InputError where one cannot read the holdout's records."""

    gate = job.settings.gate
    answers = score.score(
        job.models(),
        job.holdout.dataset,
        split=job.holdout.split,
        weighted_by=job.settings.config.holdout.weighted_by,
        clustered_by=gate.clustered_by,
        slices=gate.slices,
    )
    answers.save(job.answers)
    return {"models": sorted(job.models()), "rows": len(answers.labels), "holdout_digest": answers.digest}
