"""An outcome crosses the storage that workers share as text: bit for bit, and nothing in it is run."""

import cProfile
import dataclasses
import pickle

import pytest

from beam_jobs.launch import outcome_json
from beam_jobs.launch.outcome import Outcome, WrittenFile
from beam_jobs.sources.pieces.rejections import Rejected, Rejection
from pipeline.data.dataset.statistics import FeatureStatistics, NumericSummary, SplitStatistics, ValueCounts
from pipeline.data.errors import InputError

NUMERIC = NumericSummary(
    minimum=-float("inf"), maximum=1e300, mean=0.1 + 0.2, std=5e-324, zeros=2**60, quantiles=(0.1, 1 / 3)
)
FEATURES = {
    "age": FeatureStatistics(name="age", dtype="float32", present=3, missing=0, numeric=NUMERIC),
    "città": FeatureStatistics(
        name="città",
        dtype="string",
        present=2,
        missing=1,
        mean_length=1.1,
        values=ValueCounts(distinct=2, values=(("Zürich\ud800", 1), ("\x00", 1))),
    ),
    "empty": FeatureStatistics(name="empty", dtype="string", present=0, missing=3),
}


def outcome(*, path: str = "/data/_tmp/run/a", file_name: str = "a") -> Outcome:
    return Outcome(
        rows_read=4,
        rejected=Rejected(reasons={"bad": 1}, listed=(Rejection(source="f", row=1, reason="bad"),)),
        files=(WrittenFile(path=path, file_name=file_name, rows=3, bytes=9, sha256="0"),),
        statistics={"train": SplitStatistics(examples=3, features=FEATURES)},
        lines={"f": 12, "f from byte 9": 3},
    )


def dumped(found: Outcome) -> bytes:
    return outcome_json.dumps(
        rows_read=found.rows_read,
        rejected=found.rejected,
        files=found.files,
        statistics={split: outcome_json.sealed(measured) for split, measured in found.statistics.items()},
        lines=found.lines,
    )


def loaded(data: bytes) -> Outcome:
    return outcome_json.loads(data, file_type=WrittenFile, directory="/data/_tmp/run")


def test_it_comes_back_bit_for_bit():
    assert loaded(dumped(outcome())) == outcome()


def test_it_takes_no_call_for_each_value_that_was_counted():
    values = tuple((f"{number}", number) for number in range(1000))
    counted = FeatureStatistics(
        name="word", dtype="string", present=1, missing=0, values=ValueCounts(distinct=1000, values=values)
    )
    found = dataclasses.replace(
        outcome(), statistics={"train": SplitStatistics(examples=1, features={"word": counted})}
    )
    with cProfile.Profile() as profile:
        assert loaded(dumped(found)) == found
    assert sum(entry.callcount for entry in profile.getstats()) < 1000


def test_nothing_in_it_is_run():
    class Exploit:
        def __reduce__(self) -> tuple:
            return pytest.fail, ("a file in shared storage ran code",)

    with pytest.raises(ValueError, match=r"decode|JSON|Expecting"):
        loaded(pickle.dumps(Exploit()))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/etc/passwd", "a"),
        ("/data/_tmp/run/../../a", "a"),
        ("/data/_tmp/runs", "a"),
        ("/data/_tmp/run/a", "../a"),
    ],
)
def test_it_publishes_no_files_of_others(path: str, name: str):
    with pytest.raises(InputError, match="files that the workers of this run wrote"):
        loaded(dumped(outcome(path=path, file_name=name)))
