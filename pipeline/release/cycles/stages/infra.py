"""INFRA: a fresh process serves the export as recorded, fast and small enough beside the champion."""

import pathlib

from pipeline.release.cycles.stages.job import Job
from pipeline.release.infra import check
from pipeline.release.infra import requests as requests_lib
from pipeline.release.infra.result import InfraResult


def infra(job: Job) -> dict:
    """See InfraResult."""
    champion = job.models().get("champion")
    return dict(checked(job, job.export, against=champion).to_json())


def checked(job: Job, directory: pathlib.Path, *, against: pathlib.Path | None) -> InfraResult:
    """What a fresh process makes of a version directory. The requests are those of the cycle's export."""
    return check.check(directory, requests_lib.load(job.export), against=against, limits=job.settings.infra)
