"""A small model server: a stand-in for TensorFlow Serving, by its documentation and with its messages.

It serves a folder of versions as TensorFlow Serving does: directories with a whole number for a name, of
which it takes the highest where a request names none. REST takes `inputs` (columns) and `instances` (rows);
gRPC takes PredictionService.Predict. What it lacks: batching, other APIs, a TensorFlow of its own.
"""

import base64
import concurrent.futures
import contextlib
import functools
import http.server
import json
import pathlib
import re
import threading
from collections.abc import Iterator, Mapping

import grpc
import numpy as np
import tensorflow as tf

from pipeline.exporting import messages

_PREDICT = re.compile(r"/v1/models/(?P<model>[^/:]+)(/versions/(?P<version>\d+))?:predict")


class AbsentVersionError(Exception):
    """There is no such model or version."""


class Models:
    """Loads versions when they are asked for. `served` names the requests that were answered."""

    def __init__(self, base: pathlib.Path, model: str) -> None:
        self._base, self._model = base, model
        self._load = functools.cache(lambda path: tf.saved_model.load(str(path)))
        self.served: list[tuple[str, int, str]] = []  # protocol, version, signature

    def predict(
        self, protocol: str, model: str, version: int | None, signature: str, inputs: Mapping[str, object]
    ) -> Mapping[str, np.ndarray]:
        """Inputs are arrays, or nested lists as JSON has them.

        Raises:
          AbsentVersionError: there is no such model or version; and whatever TensorFlow raises.
        """
        whole = [int(path.name) for path in self._base.iterdir() if path.name.isdigit()]
        number = max(whole, default=None) if version is None else version
        if model != self._model or number not in whole:
            raise AbsentVersionError(f"Servable not found for request: Specific({model}, {number})")
        function = self._load(self._base / str(number)).signatures[signature]
        specs = function.structured_input_signature[1]
        tensors = {name: tf.constant(values, specs[name].dtype) for name, values in inputs.items()}
        outputs = {name: values.numpy() for name, values in function(**tensors).items()}
        self.served.append((protocol, number, signature))
        return outputs


@contextlib.contextmanager
def rest(models: Models) -> Iterator[str]:
    """Answers over REST while the block runs; gives the address, `http://…`."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Rest, models))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def over_grpc(models: Models) -> Iterator[str]:
    """Answers over gRPC while the block runs; gives the address, `grpc://…`."""
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    service, _, method = messages.PREDICT[1:].partition("/")
    handler = grpc.unary_unary_rpc_method_handler(
        functools.partial(_answered, models),
        request_deserializer=messages.predict_request,
        response_serializer=lambda response: response.SerializeToString(),
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"grpc://127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def _answered(models: Models, request: object, context: grpc.ServicerContext) -> object:
    spec = request.model_spec
    version = spec.version.value if spec.HasField("version") else None
    inputs = {name: tf.make_ndarray(request.inputs[name]) for name in request.inputs}
    try:
        outputs = models.predict("grpc", spec.name, version, spec.signature_name, inputs)
    except AbsentVersionError as error:
        context.abort(grpc.StatusCode.NOT_FOUND, str(error))
    except (tf.errors.OpError, KeyError, TypeError, ValueError) as error:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
    response = messages.predict_response()
    for name, values in outputs.items():
        response.outputs[name].ParseFromString(tf.make_tensor_proto(values).SerializeToString())
    return response


class _Rest(http.server.BaseHTTPRequestHandler):
    def __init__(self, models: Models, *arguments: object) -> None:
        self._models = models
        super().__init__(*arguments)

    def do_POST(self) -> None:
        asked = _PREDICT.fullmatch(self.path)
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not asked:
            self._send(404, {"error": f"Malformed request: POST {self.path}"})
            return
        version = asked["version"] and int(asked["version"])
        signature = document.get("signature_name", "serving_default")
        try:
            outputs = self._models.predict(
                "rest", asked["model"], version, signature, inputs_of_json(document)
            )
        except AbsentVersionError as error:
            self._send(404, {"error": str(error)})
        except (tf.errors.OpError, KeyError, TypeError, ValueError) as error:
            self._send(400, {"error": str(error)})
        else:
            self._send(200, _document(outputs, by_rows="instances" in document))

    def _send(self, status: int, document: Mapping) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Says nothing."""


def inputs_of_json(document: Mapping) -> dict[str, object]:
    """Columns by name, of a request by columns or by rows."""
    if "inputs" in document:
        return {name: _decoded(values) for name, values in document["inputs"].items()}
    rows = [_decoded(row) for row in document["instances"]]
    return {name: [row[name] for row in rows] for name in rows[0]}


def _decoded(value: object) -> object:
    """`{"b64": …}` as bytes, wherever it stands."""
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    if isinstance(value, dict):
        if set(value) == {"b64"}:
            return base64.b64decode(value["b64"], validate=True)
        return {name: _decoded(each) for name, each in value.items()}
    return value


def _document(outputs: Mapping[str, np.ndarray], *, by_rows: bool) -> dict:
    """One output stands without its name; several are columns, or rows, by name."""
    lists = {name: values.tolist() for name, values in outputs.items()}
    if by_rows:
        named = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
        return {"predictions": next(iter(lists.values())) if len(lists) == 1 else named}
    return {"outputs": next(iter(lists.values())) if len(lists) == 1 else lists}
