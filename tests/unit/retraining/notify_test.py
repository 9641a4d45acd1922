"""Somebody is told; if that fails, nothing else does."""

import http.server
import json
import threading

import pytest

from pipeline.retraining import notify
from pipeline.retraining.records import Root
from tests.unit.retraining.settings_test import parsed


def send(tmp_path, **keys):
    settings = parsed(**{f"notify__{key}": value for key, value in keys.items()})
    notify.send(Root(path=tmp_path, name="taxi"), settings, {"event": "decision", "version": 3})


@pytest.fixture
def server():
    got = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            got.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(500 if self.path == "/fails" else 200)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    serving = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}", got
    serving.shutdown()
    thread.join()
    serving.server_close()


def test_a_command_gets_the_event_as_json(tmp_path, capfd):
    send(tmp_path, command=f"cp /dev/stdin '{tmp_path}/an event.json'")
    event = json.loads((tmp_path / "an event.json").read_text())
    assert event == {"model": "taxi", "root": str(tmp_path), "event": "decision", "version": 3}
    assert capfd.readouterr().err == ""


def test_a_webhook_gets_it_too(tmp_path, server):
    address, got = server
    send(tmp_path, webhook=f"{address}/hook?key=1")
    ((path, event),) = got
    assert (path, event["version"]) == ("/hook?key=1", 3)


SECRET = "T0/B0-SECRET"


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        ({"webhook": f"https://127.0.0.1:1/{SECRET}"}, "https://127.0.0.1:1/…"),
        ({"webhook": f"https://me:{SECRET[3:]}@127.0.0.1:1?key={SECRET}"}, "https://127.0.0.1:1/…"),
        ({"webhook": f"http://127.0.0.1:1/a line\n{SECRET}"}, "http://127.0.0.1:1/…"),
        ({"webhook": f"127.0.0.1/{SECRET}"}, "127.0.0.1/…"),
        ({"webhook": f"ftp://127.0.0.1/{SECRET}"}, "ftp://127.0.0.1/…"),
        ({"webhook": f"http://127.0.0.1:{SECRET}/"}, "http://127.0.0.1:T0/…"),
        ({"webhook": f"http://[{SECRET}/"}, "http://[T0/…"),
        ({"command": f"false --token={SECRET}"}, "false …"),
        ({"command": f"no-such-program --token={SECRET}"}, "no-such-program …"),
        ({"command": f"sh -c 'exit 3; {SECRET}'"}, "sh …"),
        ({"command": f"sh -c 'unclosed {SECRET}"}, "sh …"),
    ],
)
def test_a_secret_stands_neither_in_the_warning_nor_in_the_plan(tmp_path, keys, shown, capfd):
    send(tmp_path, **keys)
    warning = capfd.readouterr().err
    settings = parsed(**{f"notify__{key}": value for key, value in keys.items()})
    ((key, _),) = keys.items()
    assert warning.startswith(f"warning: config.notify.{key}={shown} was not notified: ")
    assert settings.public()["notify"][key] == shown
    assert "SECRET" not in warning + json.dumps(settings.public())


@pytest.mark.parametrize(
    "keys",
    [
        {"command": "no-such-program"},
        {"command": "false"},
        {"command": "'unclosed"},
        {"webhook": "http://127.0.0.1:1/"},
        {"webhook": "file:///etc/passwd"},
        {"webhook": "http://[bad"},
    ],
)
def test_what_fails_leaves_a_warning(tmp_path, keys, capfd):
    send(tmp_path, **keys)
    (name,) = keys
    assert capfd.readouterr().err.startswith(f"warning: config.notify.{name}=")


def test_an_answer_that_is_an_error_leaves_a_warning(tmp_path, server, capfd):
    address, _ = server
    send(tmp_path, webhook=f"{address}/fails")
    assert "answer 500" in capfd.readouterr().err


def test_a_command_of_spaces_only_leaves_a_warning(tmp_path, capfd):
    send(tmp_path, command="  ")
    assert "expected a program" in capfd.readouterr().err
