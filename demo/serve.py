"""Answers requests over HTTP, as TensorFlow Serving's REST API does: to try an export on a laptop.

  python -m demo.serve --model=build/model/1
  curl localhost:8501/v1/models/model:predict --data '{"signature_name": "raw", "inputs": {"age": [31]}}'

TensorFlow Serving takes the same requests, and is what clients should ask: it batches, and loads versions.
"""

import http.server
import json
import pathlib
from collections.abc import Mapping, Sequence

import tensorflow as tf
from absl import app, flags

_MODEL = flags.DEFINE_string("model", None, "Directory that pipeline.export wrote.", required=True)
_PORT = flags.DEFINE_integer("port", 8501, "Where to listen; that of TensorFlow Serving.", 1, 65535)
_PATH = "/v1/models/model:predict"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers POST of {"signature_name": NAME, "inputs": {FEATURE: [VALUE, …], …}}."""

    signatures: Mapping[str, tf.types.experimental.ConcreteFunction]

    def do_POST(self) -> None:
        if self.path != _PATH:
            self._reply(404, {"error": f"path {self.path}; expected {_PATH}"})
            return
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            self._reply(200, {"outputs": predict(self.signatures, json.loads(body))})
        except Exception as error:  # what a client sends must not end the server
            self._reply(400, {"error": str(error)})

    def _reply(self, status: int, content: Mapping[str, object]) -> None:
        text = f"{json.dumps(content)}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def predict(
    signatures: Mapping[str, tf.types.experimental.ConcreteFunction], request: Mapping
) -> dict[str, list] | list:
    """The outputs; where there is one, its values without a name, as TensorFlow Serving gives them.

    Raises:
      ValueError: the request is not of the signature; and what TensorFlow raises.
    """
    signature = signatures[request.get("signature_name", "serving_default")]
    wanted = signature.structured_input_signature[1]
    if {*request["inputs"]} != {*wanted}:
        raise ValueError(f"inputs: received {sorted(request['inputs'])}; expected {sorted(wanted)}")
    inputs = {name: tf.constant(value, wanted[name].dtype) for name, value in request["inputs"].items()}
    outputs = {name: value.numpy().tolist() for name, value in signature(**inputs).items()}
    return outputs if len(outputs) > 1 else next(iter(outputs.values()))


def main(_: Sequence[str]) -> None:
    if not (pathlib.Path(_MODEL.value) / "saved_model.pb").exists():
        raise SystemExit(
            f"error: --model: received {_MODEL.value}, which holds no saved_model.pb; export one"
        )
    Handler.signatures = tf.saved_model.load(_MODEL.value).signatures
    print(f"http://localhost:{_PORT.value}{_PATH}", flush=True)
    http.server.ThreadingHTTPServer(("localhost", _PORT.value), Handler).serve_forever()


if __name__ == "__main__":
    app.run(main)
