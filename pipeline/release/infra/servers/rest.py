"""TensorFlow Serving's REST API: https://www.tensorflow.org/tfx/serving/api_rest.

Requests are columns (`inputs`). All text is sent in base64, so that any bytes pass. NaN stands in the JSON as
such, which that API allows.
"""

import base64
import http.client
import json
from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.release.infra.requests import Call
from pipeline.release.infra.servers.client import AbsentError, RefusedError

_ABSENT = (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.SERVICE_UNAVAILABLE)
_LONGEST_ERROR = 300  # characters


class RestClient:
    """Asks `http://host:port/v1/models/MODEL/versions/VERSION:predict`, each time by a new connection."""

    def __init__(self, *, host: str, port: int, secure: bool, model: str, version: int) -> None:
        self._connect = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self._host, self._port = host, port
        self._path = f"/v1/models/{model}/versions/{version}:predict"

    def predict(self, call: Call, *, seconds: float) -> Mapping[str, np.ndarray]:
        """See Client. Numbers come as JSON has them, and become what was recorded, by name."""
        body = json.dumps({"signature_name": call.signature, "inputs": columns_as_json(call.inputs)})
        status, answer = self._posted(body.encode(), seconds)
        try:
            document = json.loads(answer)
            if status != http.HTTPStatus.OK:
                raise _error(status, str(document["error"]))
            return _outputs(document["outputs"], call.outputs)
        except (ValueError, TypeError, KeyError) as error:
            told = f"HTTP status {status} and no answer of TensorFlow Serving's REST API: {error!r}"
            raise RefusedError(told) from None

    def close(self) -> None:
        """Nothing is open between calls."""

    def _posted(self, body: bytes, seconds: float) -> tuple[int, bytes]:
        connection = self._connect(self._host, self._port, timeout=seconds)
        try:
            connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise AbsentError(f"it cannot be reached: {error!r}") from None
        finally:
            connection.close()


def _error(status: int, told: str) -> AbsentError | RefusedError:
    kind = AbsentError if status in _ABSENT else RefusedError
    return kind(f"HTTP status {status}: {' '.join(told.split())[:_LONGEST_ERROR]}")


def columns_as_json(inputs: Mapping[str, np.ndarray]) -> dict[str, object]:
    """`inputs` of a request: nested lists by name."""
    return {name: _json(values) for name, values in inputs.items()}


def _json(values: np.ndarray) -> object:
    """Nested lists of numbers, or of text in base64."""
    if values.dtype != object:
        return values.tolist()
    return _encoded(values.tolist())


def _encoded(value: bytes | Sequence) -> object:
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    return [_encoded(each) for each in value]


def _outputs(outputs: object, expected: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """By name; where there is one output, the API gives it without its name."""
    named = outputs if isinstance(outputs, Mapping) else {next(iter(expected)): outputs}
    return {
        name: np.array(values, expected[name].dtype) for name, values in named.items() if name in expected
    }
