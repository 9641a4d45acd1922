"""The example request is the body of a request that anybody can send."""

import json
import math
import shutil

import numpy as np
import pytest

from pipeline.base.errors import InputError
from pipeline.data.dataset.records import open_export
from pipeline.exporting import example_request
from pipeline.exporting.requests import Call, Requests
from tests.shared.people import ROWS


def test_it_is_the_first_recorded_row(exported):
    body = json.loads((exported / "example_request.json").read_text())
    (row,) = body.pop("instances")
    assert body == {"signature_name": "raw"}
    first = ROWS[60]
    assert row == {"age": first["age"], "work": first["work"], "kind": first["kind"]}


def test_every_type_is_as_tensorflow_serving_takes_it(tmp_path):
    inputs = {
        "share": np.array([0.1], np.float32),
        "absent": np.array([math.nan], np.float32),
        "count": np.array([7], np.int64),
        "pixels": np.array([[1.5, 2.0]], np.float32),
        "name": np.array(["größe".encode()], object),
        "picture": np.array([b"\xff\xd8"], object),
    }
    calls = [
        Call(signature="raw", inputs={name: values[:0] for name, values in inputs.items()}, outputs={}),
        Call(signature="serving_default", inputs={"examples": np.array([b"a"], object)}, outputs={}),
        Call(signature="raw", inputs=inputs, outputs={}),
    ]
    example_request.save(Requests(calls=calls, declared={}, tolerance=0.0, computed_by={}), tmp_path)
    text = (tmp_path / "example_request.json").read_text()
    assert '"absent": NaN' in text
    (row,) = json.loads(text)["instances"]
    assert math.isnan(row.pop("absent"))
    assert row == {
        "share": 0.1,
        "count": 7,
        "pixels": [1.5, 2.0],
        "name": "größe",
        "picture": {"b64": "/9g="},
    }


def test_other_values_in_it_change_no_export(exported, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    request = copy / "example_request.json"
    request.write_text(request.read_text().replace("{", "{\n"))
    assert "example_request.json" in open_export(copy)["files"]
    request.unlink()
    with pytest.raises(InputError, match=r"example_request\.json: received no such file"):
        open_export(copy)
