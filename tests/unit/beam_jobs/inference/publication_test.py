"""Predictions that a runner loses or repeats are noticed before anything is published."""

import dataclasses

import pytest

from beam_jobs.inference import job
from beam_jobs.launch.outcome import Outcome, WrittenFile
from beam_jobs.sources.source import Rejected
from pipeline.base.errors import InputError

FILES = tuple(WrittenFile(path="", file_name=name, rows=2, bytes=1, sha256="") for name in ("a", "b"))
WHOLE = Outcome(
    rows_read=5, rejected=Rejected(reasons={"negative": 1}, listed=()), files=FILES, statistics={}
)


def test_all_rows_predicted_or_rejected_are_fine():
    job.check_reconciled(WHOLE)


@pytest.mark.parametrize("changed", [{"rows_read": 6}, {"files": FILES[:1]}, {"files": (FILES[0],) * 2}])
def test_lost_and_repeated_rows_are_noticed(changed: dict):
    with pytest.raises(InputError, match="The runner lost or repeated rows; nothing was published"):
        job.check_reconciled(dataclasses.replace(WHOLE, **changed))
