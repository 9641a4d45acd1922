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
    notified = settings.notify
    for key, target, send_to in (("command", notified.command, _run), ("webhook", notified.webhook, _post)):
        try:
            if target:
                send_to(target, content)
        except (OSError, ValueError, http.client.HTTPException, subprocess.SubprocessError) as error:
            where = f"config.notify.{key}={notified.public()[key]}"
            print(f"warning: {where} was not notified: {_why(error)}", file=sys.stderr, flush=True)


class _NotifyError(ValueError):
    """A failure; its text reveals nothing about the target."""


def _why(error: Exception) -> str:
    """Returns the reason without the target, which errors of the libraries quote."""
    if isinstance(error, _NotifyError):
        return str(error)
    if isinstance(error, subprocess.CalledProcessError):
        return f"exit code {error.returncode}"
    is_slow = isinstance(error, TimeoutError | subprocess.TimeoutExpired)
    reason = f"no end within {_SECONDS} s" if is_slow else getattr(error, "strerror", None)
    return reason or type(error).__name__


def _run(command: str, content: bytes) -> None:
    """Runs a program with arguments, split as by a shell; no shell runs."""
    program = shlex.split(command)
    if not program:
        raise _NotifyError("expected a program")
    subprocess.run(program, input=content, timeout=_SECONDS, check=True, stdout=subprocess.DEVNULL)


def _post(url: str, content: bytes) -> None:
    address = urllib.parse.urlsplit(url)
    if address.scheme not in _CONNECTIONS or not address.hostname:
        raise _NotifyError("expected an address that begins with http:// or https://")
    connection = _CONNECTIONS[address.scheme](address.hostname, address.port, timeout=_SECONDS)
    try:
        path = urllib.parse.urlunsplit(("", "", address.path or "/", address.query, ""))
        connection.request("POST", path, content, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise _NotifyError(f"answer {answer.status} {answer.reason}")
    finally:
        connection.close()
