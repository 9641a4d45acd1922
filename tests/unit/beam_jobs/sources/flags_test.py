"""What a schema remembers of its raw files is checked as flags are."""

import pytest

from beam_jobs.sources import flags as source_flags
from pipeline.base.errors import InputError


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("encoding", "no-such"),
        ("encoding", "\0"),
        ("encoding", "rot13"),
        ("delimiter", "ab"),
        ("header", "perhaps"),
        ("column_names", ["a", "a"]),
        ("column_names", "a"),
    ],
)
def test_what_cannot_be_is_refused(flag: str, value: object):
    with pytest.raises(InputError, match=f"raw_files, field '{flag}'"):
        source_flags._known("csv", {flag: value})


def test_what_can_be_is_kept():
    remembered = {"encoding": "cp1252", "delimiter": "\t", "header": "no", "text_unit": "line"}
    assert source_flags._known("csv", remembered) == {
        name: value for name, value in remembered.items() if name != "text_unit"
    }
