"""A server is asked over REST and gRPC; what it lacks, refuses or answers otherwise is told.

No TensorFlow Serving was at hand: a small server that loads the SavedModel speaks its protocols.
"""

import contextlib
import http.server
import json
import pathlib
import shutil
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.serving.servers import ask
from tests.shared.faulty_exports import resaved
from tests.shared.model_server import Models, over_grpc, rest

PROTOCOLS = {"rest": rest, "grpc": over_grpc}


@pytest.fixture
def folder(exported: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """Where versions are published: number 3, and something that is none."""
    (tmp_path / "people" / ".staging").mkdir(parents=True)
    shutil.copytree(exported, tmp_path / "people" / "3")
    return tmp_path / "people"


@pytest.fixture(params=["rest", "grpc"])
def protocol(request: pytest.FixtureRequest) -> str:
    return request.param


def asked(folder, protocol, requests, *, sleep=lambda seconds: None, **changes):
    models = Models(folder, "people")
    with PROTOCOLS[protocol](models) as url:
        found = ask(
            url, requests, **{"model": "people", "version": 3, "seconds": 2.0, **changes}, sleep=sleep
        )
    return found, models


def test_a_server_answers_as_recorded(folder, protocol, requests):
    found, models = asked(folder, protocol, requests)
    assert found.passed, found.reasons
    assert (found.calls, found.rows) == (6, 2 * (1 + 7 + 40))
    assert found.worst <= 1e-7
    assert found.median_ms > 0
    assert set(models.served) == {(protocol, 3, "serving_default"), (protocol, 3, "raw")}
    assert json.loads(json.dumps(found.to_json()))["passed"] is True


def test_a_server_is_waited_for_while_it_loads_the_version(folder, protocol, requests):
    (folder / "3").rename(folder / "loading")
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            (folder / "loading").rename(folder / "3")

    found, _ = asked(folder, protocol, requests, sleep=sleep)
    assert found.passed, found.reasons
    assert slept == [0.5, 0.5]


def test_a_server_that_does_not_load_the_version_is_told_of(folder, protocol, requests):
    slept = []
    found, _ = asked(folder, protocol, requests, version=4, sleep=slept.append)
    (reason,) = found.reasons
    assert "does not serve version 4 of model 'people': " in reason
    assert reason.endswith("Servable not found for request: Specific(people, 4)")
    assert sum(slept) == 2.0


def test_other_answers_are_told_of(exported, folder, protocol, requests):
    def halved(outputs):
        return {name: values / 2 for name, values in outputs.items()}

    shutil.rmtree(folder / "3")
    resaved(exported, folder / "3", change=halved)
    found, _ = asked(folder, protocol, requests)
    assert len(found.reasons) == 6
    assert (
        "'raw' asked with 7 rows: output 'probabilities' differs from the recorded by up to"
        in found.reasons[3]
    )


def test_a_signature_that_the_server_refuses_is_told_of(exported, folder, protocol, requests):
    shutil.rmtree(folder / "3")
    resaved(exported, folder / "3", names={"raw": "rows"})
    found, _ = asked(folder, protocol, requests)
    assert len(found.reasons) == 3
    assert all("'raw' asked with" in each and "it refused: " in each for each in found.reasons)
    assert found.worst <= 1e-7


def test_garbage_that_is_answered_is_told_of(folder, protocol, requests):
    class Answers(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
        def serve(self, examples):
            return {"probabilities": tf.zeros([tf.size(examples), 2]) + 0.5}

    model = Answers()
    tf.saved_model.save(model, str(folder / "4"), signatures={"serving_default": model.serve})
    found, _ = asked(folder, protocol, requests, version=4)
    assert found.reasons[-1].endswith("asked with bytes that are no example, answered as if they were one")


def test_rest_takes_rows_too(folder, requests):
    """What our client does not send, but others do: the stand-in is to be one of TensorFlow Serving."""
    call = next(call for call in requests.calls if call.signature == "raw" and call.rows == 7)
    instances = [
        {"age": float(age), "work": work.decode(), "kind": kind.decode()}
        for age, work, kind in zip(*(call.inputs[name] for name in ("age", "work", "kind")), strict=True)
    ]
    body = json.dumps({"signature_name": "raw", "instances": instances}).encode()
    with rest(Models(folder, "people")) as url:
        answer = json.loads(urllib.request.urlopen(f"{url}/v1/models/people:predict", body).read())
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}/v1/models/people:classify", body)
    assert answer["predictions"] == call.outputs["probabilities"].tolist()


@contextlib.contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """Something on a port that is no model server."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Says nothing."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    "body",
    [b"<html>", b"[]", b"{}", b'{"outputs": "x"}', b'{"outputs": {"other": [1]}}', b'{"outputs": [[0.5]]}'],
)
def test_what_is_no_model_server_is_told_of(body, requests):
    with answering(200, body) as url:
        found = ask(url, requests, model="people", version=3, seconds=0.0)
    assert not found.passed
    assert found.reasons[0].startswith(f"the server at {url}, 'serving_default' asked with 1 row: ")


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "grpc://127.0.0.1:9"])
def test_a_port_where_nobody_listens_is_told_of(url, requests):
    found = ask(url, requests, model="people", version=3, seconds=1.0, sleep=lambda seconds: None)
    (reason,) = found.reasons
    assert reason.startswith(f"the server at {url} does not serve version 3 of model 'people': ")


@pytest.mark.parametrize(
    "url", ["", "localhost:8501", "ftp://host:1", "http://", "http://host:1/v1/models/m", "http://host:port"]
)
def test_an_address_that_is_none_is_refused(url, requests):
    with pytest.raises(InputError, match=r"config.serving_url: received .*; expected http://HOST:PORT"):
        ask(url, requests, model="people", version=3)
