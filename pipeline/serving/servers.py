"""Sends recorded requests to a model server, and compares its answers."""

import base64
import contextlib
import dataclasses
import http.client
import json
import statistics
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence

import grpc
import numpy as np

from pipeline.base.errors import InputError
from pipeline.exporting import messages
from pipeline.exporting.requests import Call, Requests, arrays, fill_request
from pipeline.serving.client import AbsentError, Answers, Client, RefusedError, refuses_garbage
from pipeline.serving.result import CheckResult

# --- TensorFlow Serving's gRPC API: PredictionService.Predict.


_GRPC_ABSENT = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,  # the server loads or unloads the version
    grpc.StatusCode.DEADLINE_EXCEEDED,
)
_SECONDS_A_CALL = 30.0
_ANY_SIZE = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


class GrpcClient:
    """Calls one version of a model at `host:port`, without encryption."""

    def __init__(self, *, host: str, port: int, model: str, version: int) -> None:
        self._channel = grpc.insecure_channel(f"{host}:{port}", options=_ANY_SIZE)
        self._model, self._version = model, version
        self._predict = self._channel.unary_unary(
            messages.PREDICT,
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=messages.predict_response,
        )

    def predict(self, call: Call) -> Mapping[str, np.ndarray]:
        request = messages.predict_request()
        fill_request(request, call, model=self._model, version=self._version)
        try:
            response = self._predict(request, timeout=_SECONDS_A_CALL)
        except grpc.RpcError as error:
            status = f"gRPC status {error.code().name}"
            raise _error(status, str(error.details()), is_absent=error.code() in _GRPC_ABSENT) from None
        return arrays(response.outputs)

    def close(self) -> None:
        self._channel.close()


# --- The check of a server.


_PAUSE = 0.5  # seconds between two tries while a server lacks the version


@dataclasses.dataclass(frozen=True, kw_only=True)
class Served(CheckResult):
    """The answers of a server.

    Attributes:
      reasons: the faults, a sentence each.
      worst: the largest difference to the recorded answer, as a share of the largest number of that answer.
      median_ms: the median time of a call, from here to the server and back; 0 where there was none.
    """

    url: str
    model: str
    version: int
    reasons: Sequence[str]
    calls: int = 0
    rows: int = 0
    worst: float = 0.0
    median_ms: float = 0.0


def ask(
    url: str,
    requests: Requests,
    *,
    model: str,
    version: int,
    seconds: float = 120.0,
    sleep: Callable[[float], None] = time.sleep,
) -> Served:
    """Checks that the server at `url` answers as recorded, within the tolerance, because a server is another
    build of TensorFlow.

    Requests without a row are left out: over REST an empty list has no type.

    Args:
      seconds: how long the server may take to load the version; after that its absence is a reason.

    Raises:
      InputError: `url` is not the address of a server.
    """
    result = Served(url=url, model=model, version=version, reasons=())
    answers = Answers(exact=False, tolerance=requests.tolerance)
    calls = [call for call in requests.calls if call.rows]
    with contextlib.closing(client_of(url, model=model, version=version)) as client:
        try:
            _wait(client, calls[0], seconds, sleep)
            answers.ask(client, calls)
        except AbsentError as error:
            reason = f"the server at {url} does not serve version {version} of model '{model}': {error}"
            return dataclasses.replace(result, reasons=[reason])
        garbage = _garbage_reasons(client)
    return dataclasses.replace(
        result,
        reasons=[f"the server at {url}, {each}" for each in (*answers.reasons, *garbage)],
        calls=len(calls),
        rows=sum(call.rows for call in calls),
        worst=answers.worst,
        median_ms=statistics.median(answers.took_ms) if answers.took_ms else 0.0,
    )


def _wait(client: Client, call: Call, seconds: float, sleep: Callable[[float], None]) -> None:
    """Waits until the server has the version; raises AbsentError after `seconds`."""
    for left in range(int(seconds / _PAUSE), -1, -1):
        try:
            client.predict(call)
            return
        except RefusedError:  # the version is there
            return
        except AbsentError:
            if not left:
                raise
            sleep(_PAUSE)


def _garbage_reasons(client: Client) -> list[str]:
    try:
        if refuses_garbage(client):
            return []
    except AbsentError as error:
        return [f"asked with bytes that are no example, was gone: {error}"]
    return ["asked with bytes that are no example, answered as if they were one"]


# --- TensorFlow Serving's REST API: https://www.tensorflow.org/tfx/serving/api_rest.


_REST_ABSENT = (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.SERVICE_UNAVAILABLE)
_LONGEST_ERROR = 300  # characters


class RestClient:
    """Posts to `http://host:port/v1/models/MODEL/versions/VERSION:predict`, with a new connection each time.

    Requests are columns (`inputs`). Text is sent in base64, so that any bytes pass. JSON holds NaN as such,
    which that API allows.
    """

    def __init__(self, *, host: str, port: int, secure: bool, model: str, version: int) -> None:
        self._connect = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self._host, self._port = host, port
        self._path = f"/v1/models/{model}/versions/{version}:predict"

    def predict(self, call: Call) -> Mapping[str, np.ndarray]:
        """Returns the outputs with the types of the recorded ones, because JSON has no such types."""
        body = json.dumps({"signature_name": call.signature, "inputs": columns_as_json(call.inputs)})
        status, answer = self._post(body.encode())
        try:
            document = json.loads(answer)
            if status != http.HTTPStatus.OK:
                is_absent = status in _REST_ABSENT
                raise _error(f"HTTP status {status}", str(document["error"]), is_absent=is_absent)
            return _outputs(document["outputs"], call.outputs)
        except (ValueError, TypeError, KeyError) as error:
            text = f"HTTP status {status} and no answer of TensorFlow Serving's REST API: {error!r}"
            raise RefusedError(f"it refused: {text}") from None

    def close(self) -> None:
        """Does nothing: no connection is open between calls."""

    def _post(self, body: bytes) -> tuple[int, bytes]:
        connection = self._connect(self._host, self._port, timeout=_SECONDS_A_CALL)
        try:
            connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise AbsentError(f"it cannot be reached: {error!r}") from None
        finally:
            connection.close()


def _error(status: str, text: str, *, is_absent: bool) -> AbsentError | RefusedError:
    said = f"{status}: {' '.join(text.split())[:_LONGEST_ERROR]}"
    return AbsentError(said) if is_absent else RefusedError(f"it refused: {said}")


def columns_as_json(inputs: Mapping[str, np.ndarray]) -> dict[str, object]:
    """Returns the `inputs` of a request: nested lists by name, of numbers, or of text in base64."""
    return {
        name: _encode(values.tolist()) if values.dtype == object else values.tolist()
        for name, values in inputs.items()
    }


def _encode(value: bytes | Sequence) -> object:
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    return [_encode(each) for each in value]


def _outputs(outputs: object, expected: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns outputs by name. The API leaves out the name of a single output."""
    named = outputs if isinstance(outputs, Mapping) else {next(iter(expected)): outputs}
    return {name: _like(values, expected[name]) for name, values in named.items() if name in expected}


def _like(values: object, expected: np.ndarray) -> np.ndarray:
    """Returns values as an array of the type of `expected`; text, which JSON has as such, as bytes."""
    found = np.array(values, expected.dtype)
    return np.array(np.char.encode(found.astype(str)), object) if expected.dtype.hasobject else found


# --- The address of a model server.


_PORTS = {"http": 8501, "https": 443, "grpc": 8500}  # ports of TensorFlow Serving, and of HTTPS


def client_of(url: str, *, model: str, version: int) -> "GrpcClient | RestClient":
    """Returns a client of the server at `http://host:port`, `https://host:port` or `grpc://host:port`."""
    scheme, host, port = _parts(url)
    if scheme == "grpc":
        return GrpcClient(host=host, port=port, model=model, version=version)
    return RestClient(host=host, port=port, secure=scheme == "https", model=model, version=version)


def _parts(url: str) -> tuple[str, str, int]:
    try:
        parts = urllib.parse.urlsplit(url)
        found = parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:  # an invalid port
        found, parts = ("", "", None), None
    if found[0] not in _PORTS or not found[1] or (parts and (parts.path.strip("/") or parts.query)):
        raise InputError(
            "config.serving_url",
            received=repr(url),
            expected="http://HOST:PORT of TensorFlow Serving's REST API, or grpc://HOST:PORT",
            action="Leave out what follows the port: model and version are added.",
        )
    return found
