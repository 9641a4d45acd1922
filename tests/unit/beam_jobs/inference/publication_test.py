"""Predictions that a runner loses or repeats are noticed before anything is published."""

import dataclasses

import pytest

from beam_jobs.inference import job
from beam_jobs.inference.tables import PredictionsFile
from beam_jobs.launch.outcome import Outcome
from beam_jobs.sources.source import Rejected
from pipeline.base.errors import InputError

FILES = tuple(
    PredictionsFile(path="", file_name=name, rows=2, bytes=1, sha256="", keys_with_values=())
    for name in ("a", "b")
)
WHOLE = Outcome(
    rows_read=5, rejected=Rejected(reasons={"negative": 1}, listed=()), files=FILES, statistics={}
)


def test_documents_of_packed_text_are_counted_beside_their_rows():
    noted = {"documents of predict": 3, "tokens of predict": 90}
    of_text = job.description(dataclasses.replace(WHOLE, noted=noted), "digest", ())
    assert job.counts(of_text) == "4 documents read, 3 predicted in 4 rows, 1 rejected"
    assert job.counts(job.description(WHOLE, "digest", ())) == "5 rows read, 4 predicted, 1 rejected"


def test_all_rows_predicted_or_rejected_are_fine():
    job.check_reconciled(WHOLE)


@pytest.mark.parametrize("changed", [{"rows_read": 6}, {"files": FILES[:1]}, {"files": (FILES[0],) * 2}])
def test_lost_and_repeated_rows_are_noticed(changed: dict):
    with pytest.raises(InputError, match="The runner lost or repeated rows; nothing was published"):
        job.check_reconciled(dataclasses.replace(WHOLE, **changed))
