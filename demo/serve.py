"""Answers requests over HTTP, as TensorFlow Serving's REST API does: to try an export on a laptop.

  python -m demo.serve --model=build/model/1
  curl localhost:8501/v1/models/model:predict --data '{"signature_name": "raw", "inputs": {"age": [31]}}'
  curl localhost:8501/v1/models/model:predict --data @build/model/1/example_request.json
  curl localhost:8501/v1/models/model  # is it there?

TensorFlow Serving takes the same requests, and is what clients should ask: it batches, and loads versions.
"""

import argparse
import base64
import binascii
import http.server
import json
import pathlib
import re
from collections.abc import Mapping

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

# isort: split

import tensorflow as tf

from pipeline.data.images.pixels import size_refusal

MODEL = "/v1/models/model"
PATH = f"{MODEL}:predict"

Signatures = Mapping[str, tf.types.experimental.ConcreteFunction]


def predict(signatures: Signatures, request: object) -> dict[str, object]:
    """The reply: `outputs` where the request has columns, `predictions` where it has rows.

    As TensorFlow Serving does, it leaves out the name of an output that is the only one.

    Args:
      request: {"signature_name": NAME, "inputs": {FEATURE: [VALUE, …], …}}, or in place of `inputs`
        "instances": [{FEATURE: VALUE, …}, …].

    Raises:
      ValueError: the request is not one of these signatures, or a signature refuses its values.
    """
    if not isinstance(request, Mapping):
        raise ValueError(
            f"request: received a {type(request).__name__}; expected an object with signature_name and inputs"
        )
    name = request.get("signature_name", "serving_default")
    if name not in signatures:
        raise ValueError(f"signature_name: received {name}; expected one of {', '.join(sorted(signatures))}")
    if "inputs" in request and "instances" in request:
        raise ValueError("request: received both inputs and instances; expected one of them")
    wanted = signatures[name].structured_input_signature[1]
    has_rows = "instances" in request
    columns = _columns(request["instances"], wanted) if has_rows else request.get("inputs", {})
    _check_names("inputs", columns, wanted)
    tensors = {feature: _tensor(feature, columns[feature], spec) for feature, spec in wanted.items()}
    rows = {feature: len(tensor) for feature, tensor in sorted(tensors.items()) if tensor.shape.rank}
    if len({*rows.values()}) > 1:  # a column of one row would count for all
        raise ValueError(f"inputs: received {rows} rows; expected as many in each column")
    try:
        answer = signatures[name](**tensors)
    except tf.errors.OpError as error:
        raise ValueError(_refusal(signatures[name], tensors, error)) from None
    outputs = {name: _in_json(value.numpy().tolist()) for name, value in answer.items()}
    if not has_rows:
        return {"outputs": outputs if len(outputs) > 1 else next(iter(outputs.values()))}
    rows = zip(*outputs.values(), strict=True)
    return {"predictions": [dict(zip(outputs, row, strict=True)) if len(row) > 1 else row[0] for row in rows]}


def _columns(rows: object, wanted: Mapping[str, tf.TensorSpec]) -> dict[str, list]:
    """Turns rows into columns."""
    if not isinstance(rows, list):
        raise ValueError(f"instances: received {_shown(rows)}; expected a list of objects, one for each row")
    for number, row in enumerate(rows, 1):
        _check_names(f"row {number} of instances", row, wanted)
    return {name: [row[name] for row in rows] for name in wanted}


def _check_names(where: str, given: object, wanted: Mapping[str, tf.TensorSpec]) -> None:
    if not isinstance(given, Mapping):
        raise ValueError(f"{where}: received {_shown(given)}; expected an object with {sorted(wanted)}")
    if {*given} != {*wanted}:
        raise ValueError(f"{where}: received {sorted(given)}; expected {sorted(wanted)}")


# --- Values of JSON as tensors; TensorFlow's own errors do not name the column.

_KINDS = {"string": (str, "a text"), "int64": (int, "a whole number"), "float32": (int | float, "a number")}
_MISSING = {"string": '; a missing one is ""', "float32": "; a missing one is NaN, without quotes"}


def _tensor(name: str, values: object, spec: tf.TensorSpec) -> tf.Tensor:
    """Returns a column as a tensor. Raises ValueError, which names the column, the value and the type."""
    column = _values(name, values, spec.dtype.name)
    try:
        tensor = tf.constant(column, spec.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"column '{name}': {error}") from None
    if not spec.shape.is_compatible_with(tensor.shape):
        expected = ", ".join("rows" if size is None else str(size) for size in spec.shape)
        raise ValueError(f"column '{name}': received a shape of {tensor.shape}; expected ({expected})")
    return tensor


def _values(name: str, values: object, dtype: str) -> object:
    """Returns the values as TensorFlow takes them: with bytes where the request has them in Base64."""
    if isinstance(values, list):
        return [_values(name, value, dtype) for value in values]
    if dtype == "string" and isinstance(values, dict) and [*values] == ["b64"]:
        try:
            return base64.b64decode(values["b64"], validate=True)
        except (TypeError, binascii.Error) as error:
            raise ValueError(
                f"column '{name}': received {_shown(values)} ({error}); expected bytes in Base64"
            ) from None
    kind, expected = _KINDS.get(dtype, (object, dtype))
    if not isinstance(values, kind) or isinstance(values, bool):
        missing = _MISSING.get(dtype, "")
        if isinstance(values, str):
            missing = f", without quotes{missing}".replace("NaN, without quotes", "NaN")
        raise ValueError(
            f"column '{name}': received {_shown(values)}; expected {expected} ({dtype}){missing}"
        )
    return values


# --- What a signature refuses, such as a picture: TensorFlow's message has many lines, and no row.

_BROKEN_PICTURE = re.compile(r"Invalid (JPEG|PNG) data")
_OF_THE_GRAPH = re.compile(r"\{\{.*?\}\}\s*")
_PREFACE = "<stack traces unavailable>"


def _refusal(
    signature: tf.types.experimental.ConcreteFunction,
    tensors: Mapping[str, tf.Tensor],
    error: tf.errors.OpError,
) -> str:
    """One line on the first row that is refused, and for a picture on what is wrong with it."""
    rows = max((len(column) for column in tensors.values() if column.shape.rank), default=0)
    for row in range(rows):
        try:
            signature(**{name: column[row : row + 1] for name, column in tensors.items()})
        except tf.errors.OpError as of_row:
            return _in_one_line(f"row {row + 1} of the request", of_row.message)
    return _in_one_line("request", error.message)  # no row by itself


def _in_one_line(where: str, message: str) -> str:
    if refused := size_refusal(message, where=f"{where}, image"):
        return str(refused)
    if broken := _BROKEN_PICTURE.search(message):
        return (
            f"{where}, image: received a {broken[1]} that is cut off or damaged; "
            "expected the whole file of a JPEG or PNG. Send all of its bytes."
        )
    said = message.partition(_PREFACE)[2].strip() or message
    return f"{where}: {_OF_THE_GRAPH.sub('', said.splitlines()[0])}"


def _in_json(values: object) -> object:
    """Returns the values with texts in place of bytes."""
    if isinstance(values, list):
        return [_in_json(value) for value in values]
    return values.decode(errors="backslashreplace") if isinstance(values, bytes) else values


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}…"


def state(version: str) -> dict[str, object]:
    """What TensorFlow Serving says of a model that answers."""
    status = {"error_code": "OK", "error_message": ""}
    return {"model_version_status": [{"version": version, "state": "AVAILABLE", "status": status}]}


def server(loaded: tf.Module, *, port: int, version: str = "1") -> http.server.ThreadingHTTPServer:
    """A server of an export as `tf.saved_model.load` gives it; port 0 is any that is free."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == MODEL:
                self._reply(200, state(version))
            else:
                self.send_error(404, f"path: received GET {self.path}")

        def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
            """Answers in JSON, also what http.server itself refuses, such as other methods."""
            expected = f"expected POST {PATH} for predictions, or GET {MODEL} for the state"
            self._reply(code, {"error": f"{message or explain}; {expected}"})

        def do_POST(self) -> None:
            if self.path != PATH:
                self.send_error(404, f"path: received POST {self.path}")
                return
            try:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self._reply(200, predict(loaded.signatures, json.loads(body)))
            except (tf.errors.OpError, TypeError, ValueError, RecursionError) as error:
                self._reply(400, {"error": str(error)})

        def _reply(self, status: int, content: Mapping[str, object]) -> None:
            text = f"{json.dumps(content)}\n".encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    return http.server.ThreadingHTTPServer(("localhost", port), Handler)


def main() -> None:
    parser = argparse.ArgumentParser(description="Answers requests to an export over HTTP.")
    parser.add_argument("--model", required=True, help="directory that pipeline.export wrote")
    parser.add_argument("--port", type=int, default=8501, help="where to listen (default: 8501)")
    given = parser.parse_args()
    if not (pathlib.Path(given.model) / "saved_model.pb").exists():
        parser.error(
            f"--model: received {given.model}, without saved_model.pb; expected an export's directory"
        )
    try:
        loaded = tf.saved_model.load(given.model)
    except (OSError, ValueError, tf.errors.OpError) as error:
        parser.error(f"--model: received {given.model}, which does not load ({error})")
    try:
        name = pathlib.Path(given.model).resolve().name
        serving = server(loaded, port=given.port, version=name if name.isdecimal() else "1")
    except (OSError, OverflowError) as error:
        parser.error(f"--port: received {given.port} ({error}); expected a free port, such as 0 for any")
    with serving:
        print(f"http://localhost:{serving.server_port}{PATH}", flush=True)
        serving.serve_forever()


if __name__ == "__main__":
    main()
