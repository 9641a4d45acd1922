"""How a dataset was converted is read as it was written, or its damage is named."""

import json

import pytest

from pipeline.base import documents
from pipeline.base.errors import InputError
from pipeline.data.dataset import records


def test_is_read_as_it_was_written(tmp_path):
    assert records.read_conversion(tmp_path) == {}
    (tmp_path / "conversion.json").write_text(records.dumps_conversion({"seconds": 1.5}))
    assert records.read_conversion(tmp_path)["seconds"] == 1.5


def test_another_format_is_refused(tmp_path):
    document = {"format": "penstock.conversion/2", "seconds": 1.5}
    (tmp_path / "conversion.json").write_text(json.dumps(documents.with_digest(document)))
    with pytest.raises(InputError, match=r"format 'penstock\.conversion/2'"):
        records.read_conversion(tmp_path)


@pytest.mark.parametrize(
    ("was", "is_"), [("1.5", "1.7"), ("{", "["), ("digest", "digist"), ("format", "formut")]
)
def test_damage_is_named(tmp_path, was, is_):
    text = records.dumps_conversion({"seconds": 1.5}).replace(was, is_, 1)
    (tmp_path / "conversion.json").write_text(text)
    with pytest.raises(InputError, match=r"conversion\.json: received other content than was written"):
        records.read_conversion(tmp_path)
