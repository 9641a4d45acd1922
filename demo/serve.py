"""Answers requests over HTTP, as TensorFlow Serving's REST API does: to try an export on a laptop.

  python -m demo.serve --model=build/model/1
  curl localhost:8501/v1/models/model:predict --data '{"signature_name": "raw", "inputs": {"age": [31]}}'

TensorFlow Serving takes the same requests, and is what clients should ask: it batches, and loads versions.
"""

import argparse
import http.server
import json
import pathlib
from collections.abc import Mapping

import tensorflow as tf

PATH = "/v1/models/model:predict"

Signatures = Mapping[str, tf.types.experimental.ConcreteFunction]


def predict(signatures: Signatures, request: object) -> dict[str, list] | list:
    """The outputs; where there is one, its values without a name, as TensorFlow Serving gives them.

    Args:
      request: {"signature_name": NAME, "inputs": {FEATURE: [VALUE, …], …}}.

    Raises:
      ValueError: the request is not one of these signatures; and what TensorFlow raises.
    """
    if not isinstance(request, Mapping):
        raise ValueError(
            f"request: received a {type(request).__name__}; expected an object with signature_name and inputs"
        )
    name, values = request.get("signature_name", "serving_default"), request.get("inputs", {})
    if name not in signatures:
        raise ValueError(f"signature_name: received {name}; expected one of {', '.join(sorted(signatures))}")
    wanted = signatures[name].structured_input_signature[1]
    if {*values} != {*wanted}:
        raise ValueError(f"inputs: received {sorted(values)}; expected {sorted(wanted)}")
    tensors = {feature: tf.constant(value, wanted[feature].dtype) for feature, value in values.items()}
    outputs = {name: value.numpy().tolist() for name, value in signatures[name](**tensors).items()}
    return outputs if len(outputs) > 1 else next(iter(outputs.values()))


def server(model: str, *, port: int) -> http.server.ThreadingHTTPServer:
    """A server of the export in the folder `model`; port 0 is any that is free."""
    loaded = tf.saved_model.load(model)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            if self.path != PATH:
                self._reply(404, {"error": f"path: received {self.path}; expected {PATH}"})
                return
            try:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self._reply(200, {"outputs": predict(loaded.signatures, json.loads(body))})
            except (tf.errors.OpError, TypeError, ValueError) as error:
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
        serving = server(given.model, port=given.port)
    except (OSError, OverflowError) as error:
        parser.error(f"--port: received {given.port} ({error}); expected a free port, such as 0 for any")
    except (ValueError, tf.errors.OpError) as error:
        parser.error(f"--model: received {given.model}, which does not load ({error})")
    with serving:
        print(f"http://localhost:{serving.server_port}{PATH}", flush=True)
        serving.serve_forever()


if __name__ == "__main__":
    main()
