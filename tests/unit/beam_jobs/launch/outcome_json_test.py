"""An outcome crosses the storage that workers share as text: bit for bit, and nothing in it is run."""

import pickle

import pytest

from beam_jobs.launch import outcome as outcome_lib
from beam_jobs.launch.outcome import Outcome, WrittenFile, note
from beam_jobs.sources.source import Rejected, Rejection
from pipeline.base.errors import InputError


def outcome(*, path: str = "/data/_tmp/run/a", file_name: str = "a") -> Outcome:
    return Outcome(
        rows_read=4,
        rejected=Rejected(
            reasons={"bad": 1},
            listed=(Rejection(source="f", row=1, reason="bad", lines=3),),
            further_lines=2,
            doubts={"odd": 1},
            doubtful=(Rejection(source="f", row=2, reason="odd", is_kept=True),),
        ),
        files=(WrittenFile(path=path, file_name=file_name, rows=3, bytes=9, sha256="0"),),
        statistics={"train": bytes(range(256)), "test": b""},
        lines={"f": 12, "f from byte 9": 3},
        noted={note("shown_twice", "when"): 2},
    )


def loaded(data: bytes) -> Outcome:
    return outcome_lib.loads_outcome(data, file_type=WrittenFile, directory="/data/_tmp/run")


def test_it_comes_back_bit_for_bit():
    assert loaded(outcome_lib.dumps_outcome(outcome())) == outcome()


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
        loaded(outcome_lib.dumps_outcome(outcome(path=path, file_name=name)))
