"""DATA: the datasets of the spans are what the plan says, and the holdout is no part of the training rows."""

from pipeline.data.errors import InputError
from pipeline.release.cycles.stages.job import Job, Part
from pipeline.release.holdout import seen_rows


def data(job: Job) -> dict:
    """Rows and digests of both parts, and how much of the holdout the training rows have too.

    Raises:
      InputError: a dataset is damaged or another than was planned, or the holdout overlaps the window.
    """
    _check_planned(job)
    overlap = seen_rows.overlap(
        job.training.dataset, job.training.split, job.holdout.dataset, job.holdout.split
    )
    seen_rows.require_disjoint(overlap, most=job.settings.config.holdout.most_seen)
    return {
        "training": _told(job.training),
        "holdout": _told(job.holdout),
        "overlap": {"rows": overlap.seen, "fraction": overlap.fraction},
    }


def _check_planned(job: Job) -> None:
    """Raises InputError where a span's dataset has another digest than when the cycle was planned."""
    planned = {span["name"]: span["dataset_digest"] for span in job.plan["spans"]}
    for part in (job.training, job.holdout):
        for member in part.dataset.published:
            name = member.directory.parent.name
            if member.manifest.digest != planned[name]:
                raise InputError(
                    f"dataset {member.directory}",
                    received=f"digest {member.manifest.digest[:12]}",
                    expected=f"digest {planned[name][:12]}, as the plan of cycle {job.id} has it",
                    action="Restore it from a copy; or delete it and its receipt, to convert it again.",
                )


def _told(part: Part) -> dict:
    dataset = part.dataset
    return {
        "split": part.split,
        "dataset_digest": dataset.manifest.digest,
        "spans": len(dataset.published),
        "rows": {split: dataset.rows(split) for split in part.split.split("+")},
    }
