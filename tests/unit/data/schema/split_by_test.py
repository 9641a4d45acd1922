"""What a schema may say of splits."""

import pytest

from pipeline.base.errors import InputError
from pipeline.data.schema import schema
from pipeline.data.schema.schema import SplitBy

CUT = {"column": "day", "first": "train", "from": {"test": "2026-11-01"}}


@pytest.mark.parametrize("document", [["user"], ["user", "day"], CUT, {**CUT, "from": {"a": 1, "b": 2.5}}])
def test_it_is_read_as_it_was_written(document: object):
    assert schema.split_by_to_json(schema.split_by_from_json(document)) == document


def test_a_time_without_a_zone_is_utc():
    starts = {"a": "1970-01-02", "b": "1970-01-02T02:00:00+01:00"}
    assert SplitBy(columns=("c",), first="x", starts=starts).bounds == [86_400e6, 90_000e6]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("user", "split_by: received 'user'"),
        ([], "names of columns"),
        ([1], "names of columns"),
        ({"from": {"test": 1}}, "names of columns"),
        ({**CUT, "from": {}}, "split_by, 'from'"),
        ({**CUT, "from": {"test": True}}, "split_by, 'from'"),
        ({**CUT, "from": {"test": "soon"}}, "ISO 8601"),
        ({**CUT, "from": {"a": "2026-11-01", "test": 3}}, "ISO 8601"),
        ({**CUT, "from": {"a": "2026-11-01", "test": "2026-10-01"}}, "ascend"),
        ({**CUT, "from": {"train": 1}}, "another split"),
        ({**CUT, "first": "A-b"}, "lower-case letters"),
        ({**CUT, "to": {}}, "keys: received to"),
    ],
)
def test_what_is_wrong_is_named(document: object, message: str):
    with pytest.raises(InputError) as caught:
        schema.split_by_from_json(document)
    assert message in str(caught.value)
