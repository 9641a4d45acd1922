"""A request of one row of the data, as the body of TensorFlow Serving's REST API: a file beside the model."""

import base64
import json
import pathlib

import numpy as np

from pipeline.data.dataset.records import EXAMPLE_REQUEST, RAW
from pipeline.exporting.requests import Requests


def save(requests: Requests, directory: pathlib.Path) -> None:
    """Writes the first recorded row for `raw`.

    A number that is missing is NaN, without quotes: TensorFlow Serving takes it, strict JSON does not.
    """
    call = next(call for call in requests.calls if call.signature == RAW and call.rows)
    row = {name: _in_json(values[0]) for name, values in call.inputs.items()}
    body = {"signature_name": RAW, "instances": [row]}
    text = json.dumps(body, ensure_ascii=False, indent=1)
    (directory / EXAMPLE_REQUEST).write_text(f"{text}\n", encoding="utf-8")


def _in_json(value: object) -> object:
    if isinstance(value, np.ndarray):
        return [_in_json(each) for each in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode()}
    if isinstance(value, np.float32):
        return float(str(value))  # the shortest text that gives the same float32
    return value.item()
