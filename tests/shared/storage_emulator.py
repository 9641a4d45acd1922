"""gcp-storage-emulator, made to keep the conditions that Cloud Storage documents.

The emulator (2026.7.19) reads none of them: it creates over what is there, and copies and deletes whatever
generation there is. Here `ifGenerationMatch`, `ifSourceGenerationMatch` and `generation` of each request are
looked at before the emulator's own handler runs; where they do not hold, the answer is 412, or 404 for a
`generation` that is not there. The emulator serves one request at a time, so nothing comes between.
https://cloud.google.com/storage/docs/request-preconditions

`python -m tests.shared.storage_emulator PORT` serves. What Google promises and this file makes true by itself
is not shown by any test here: that a condition and its change are one step, and that a listing shows every
change.
"""

import contextlib
import importlib
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from http import HTTPStatus

from tests.shared import forked

BUCKET = "penstock-test"
_SECONDS_TO_START = 120
_TARGET, _SOURCE = "ifGenerationMatch", "ifSourceGenerationMatch"


class Conditional:
    """The emulator's handlers, each behind the conditions of its request."""

    def __init__(self) -> None:
        self._uploads: dict[str, tuple[str, str | None]] = {}  # name and condition, of those in parts

    def behind(self, handler: Callable) -> Callable:
        def answer(request: object, response: object, storage: object, *args: object) -> None:
            if status := self._refused(handler.__name__, request, storage):
                response.status = status
                response.json({"error": {"code": status.value, "message": status.phrase}})
                return
            handler(request, response, storage, *args)
            self._remember(request, response)

        return answer

    def _refused(self, verb: str, request: object, storage: object) -> object:
        """The status that says so; None where all conditions hold."""
        query = {name: values[0] for name, values in request.query.items()}
        params = request.params
        bucket = params.get("bucket_name")
        name, condition = self._target(request, query)
        live = _generation(storage, params.get("dest_bucket_name") or bucket, name)
        if verb in ("get", "download", "delete") and not live:
            return None  # 404, which is the handler's
        if condition is not None and int(condition) != live:
            return HTTPStatus.PRECONDITION_FAILED
        if _SOURCE in query and int(query[_SOURCE]) != _generation(storage, bucket, params["object_id"]):
            return HTTPStatus.PRECONDITION_FAILED
        return HTTPStatus.NOT_FOUND if int(query.get("generation", live)) != live else None

    def _target(self, request: object, query: dict[str, str]) -> tuple[str | None, str | None]:
        if "upload_id" in query:
            return self._uploads.get(query["upload_id"], (None, None))
        name = request.params.get("dest_object_id") or request.params.get("object_id") or query.get("name")
        if name is None and "uploadType" in query:
            name = (request.data.get("meta") or request.data)["name"]
        return name, query.get(_TARGET)

    def _remember(self, request: object, response: object) -> None:
        """The condition of an upload in parts comes with its first request, and holds for its last."""
        if request.query.get("uploadType") == ["resumable"] and "upload_id" not in request.query:
            query = urllib.parse.parse_qs(urllib.parse.urlparse(response["Location"]).query)
            values = {name: found[0] for name, found in request.query.items()}
            self._uploads[query["upload_id"][0]] = self._target(request, values)


def _generation(storage: object, bucket: str | None, name: str | None) -> int:
    """0 where there is none."""
    found = storage.objects.get(bucket, {}).get(name)
    return int(found["generation"]) if found else 0


def serve(port: int) -> None:
    """Never returns. All is in memory, and the bucket is empty."""
    server = importlib.import_module("gcp_storage_emulator.server")  # of requirements/gcp.txt, not of ours
    conditional = Conditional()
    server.HANDLERS = tuple(
        (regex, {method: conditional.behind(handler) for method, handler in handlers.items()})
        for regex, handlers in server.HANDLERS
    )
    served = server.create_server("localhost", port, in_memory=True, default_bucket=BUCKET)
    # Or it keeps what is deleted for a week, and writes all that down at each request.
    served._storage.buckets[BUCKET]["softDeletePolicy"] = {"retentionDurationSeconds": "0"}
    served.run()


@contextlib.contextmanager
def running(folder: pathlib.Path) -> Iterator[str]:
    """A server's URL, for STORAGE_EMULATOR_HOST; `folder` gets its log."""
    port = _free_port()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "emulator.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.shared.storage_emulator", str(port)],
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=forked.end_with_parent,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    try:
        _wait_for(f"http://localhost:{port}/", process)
        yield f"http://localhost:{port}"
    finally:
        process.terminate()
        process.wait()


def _wait_for(url: str, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            urllib.request.urlopen(url)
            return
        time.sleep(0.1)
    sys.exit(f"error: nothing answers at {url}; exit code {process.poll()}")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]


if __name__ == "__main__":
    serve(int(sys.argv[1]))
