"""PARITY: the export decides as the run does, on rows of the holdout."""

from pipeline.data.dataset.selection import select
from pipeline.release.cycles.stages.job import Job
from pipeline.release.parity import gate
from pipeline.training.restore import restore_model


def parity(job: Job) -> dict:
    """See ParityResult. Raises InputError where the export or a record is damaged."""

    holdout = select(job.holdout.dataset, job.holdout.split)
    result = gate.parity(restore_model(job.run), job.export, holdout, limits=job.settings.parity)
    return dict(result.to_json())
