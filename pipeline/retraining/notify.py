"""Tells a command or a webhook of a decision or a failure. If that fails, only a warning is left."""

import http
import http.client
import json
import shlex
import subprocess
import sys
import urllib.parse
from collections.abc import Callable, Mapping

from pipeline.retraining.job import Job
from pipeline.retraining.records import Root
from pipeline.retraining.settings import Settings

_SECONDS = 30
_CONNECTIONS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


def tell(job: Job, event: Mapping[str, object]) -> None:
    """Of a cycle; see `send`."""
    report = str(job.folder / "report.html")
    send(job.root, job.settings, {**event, "report": report})


def send(root: Root, settings: Settings, event: Mapping[str, object]) -> None:
    """Gives the event, with the model's name and root, to config.notify's command and webhook, as JSON."""
    content = json.dumps({"model": root.name, "root": str(root.path), **event}).encode()
    asked = settings.notify
    for told, is_asked, way in (
        ("config.notify.command", asked.command, _run),
        ("config.notify.webhook", asked.webhook, _post),
    ):
        if is_asked:
            _try(told, is_asked, way, content)


def _try(told: str, target: str, way: Callable[[str, bytes], None], content: bytes) -> None:
    try:
        way(target, content)
    except (OSError, ValueError, http.client.HTTPException, subprocess.SubprocessError) as error:
        print(f"warning: {told}={target} was not told: {error}", file=sys.stderr, flush=True)


def _run(command: str, content: bytes) -> None:
    """A program and its arguments, as a shell splits them; no shell runs."""
    program = shlex.split(command)
    if not program:
        raise ValueError("expected a program")
    subprocess.run(program, input=content, timeout=_SECONDS, check=True, stdout=subprocess.DEVNULL)


def _post(url: str, content: bytes) -> None:
    address = urllib.parse.urlsplit(url)
    if address.scheme not in _CONNECTIONS or not address.hostname:
        raise ValueError("expected an address that begins with http:// or https://")
    connection = _CONNECTIONS[address.scheme](address.hostname, address.port, timeout=_SECONDS)
    try:
        path = urllib.parse.urlunsplit(("", "", address.path or "/", address.query, ""))
        connection.request("POST", path, content, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise ValueError(f"answer {answer.status} {answer.reason}")
    finally:
        connection.close()
