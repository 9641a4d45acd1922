"""Notifies a command or a webhook of a decision or a failure. If that fails, it prints a warning."""

import http
import http.client
import json
import shlex
import subprocess
import sys
import urllib.parse
from collections.abc import Mapping

from pipeline.retraining.job import Job
from pipeline.retraining.records import Root
from pipeline.retraining.settings import Settings

_SECONDS = 30
_CONNECTIONS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


def send_of_cycle(job: Job, event: Mapping[str, object]) -> None:
    """Sends an event of a cycle, with its id and report; see `send`."""
    report = str(job.folder / "report.html")
    send(job.root, job.settings, {**event, "cycle": job.id, "report": report})


def send(root: Root, settings: Settings, event: Mapping[str, object]) -> None:
    """Sends the event as JSON, with the model's name and root, to config.notify's command and webhook."""
    content = json.dumps({"model": root.name, "root": str(root.path), **event}).encode()
    for key, target, send_to in (
        ("config.notify.command", settings.notify.command, _run),
        ("config.notify.webhook", settings.notify.webhook, _post),
    ):
        try:
            if target:
                send_to(target, content)
        except (OSError, ValueError, http.client.HTTPException, subprocess.SubprocessError) as error:
            print(f"warning: {key}={target} was not notified: {error}", file=sys.stderr, flush=True)


def _run(command: str, content: bytes) -> None:
    """Runs a program with arguments, split as by a shell; no shell runs."""
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
