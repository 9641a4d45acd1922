"""A Dataflow service that runs what was staged: the REST calls of a launch, a local gs://, one worker.

A job that is created is fetched back from the staging bucket as its `pipeline.pb` and packages, installed
into an environment without this project, and run there by the embedded runner. That proves that what is
uploaded is all that the job needs; it says nothing about Google's own service, scheduling or permissions.
"""

import contextlib
import http.server
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping

from tests.shared.engines import ROOT, WORKER

BUCKET = "penstock-test"
_GCP_PACKAGES = sorted((WORKER / "lib").glob("python*/site-packages"))
_JOB = re.compile(r"/jobs/([^/?:]+)")
_SECONDS_TO_START = 30


class _Service(http.server.BaseHTTPRequestHandler):
    """The part of dataflow.googleapis.com/v1b3 that a launch calls."""

    server: "_Jobs"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        job = {**body, "id": f"job-{len(self.server.jobs)}", "currentState": "JOB_STATE_RUNNING"}
        self.server.jobs[job["id"]] = job
        threading.Thread(target=self.server.run_job, args=(job,), daemon=True).start()
        self._answer(job)

    def do_GET(self) -> None:
        asked = _JOB.search(self.path)
        if "/messages" in self.path:
            self._answer({"jobMessages": []})
        elif "/metrics" in self.path:
            self._answer({"metrics": []})
        else:
            self._answer(self.server.jobs[asked[1]] if asked else {"jobs": list(self.server.jobs.values())})

    def _answer(self, document: Mapping) -> None:
        content = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        pass


class _Jobs(http.server.ThreadingHTTPServer):
    """The jobs by id; each runs in a process of the worker's environment."""

    def __init__(self, environment: Mapping[str, str], directory: pathlib.Path) -> None:
        super().__init__(("localhost", 0), _Service)
        self.jobs: dict[str, dict] = {}
        self._environment = environment
        self._directory = directory

    def run_job(self, job: dict) -> None:
        done = subprocess.run(
            [WORKER / "bin" / "python", ROOT / "tests" / "soak" / "replay_staged.py"],
            input=json.dumps(job),
            cwd=self._directory,
            env=self._environment,
            text=True,
            stdout=(self._directory / "worker.log").open("w"),
            stderr=subprocess.STDOUT,
        )
        job["currentState"] = "JOB_STATE_FAILED" if done.returncode else "JOB_STATE_DONE"


@contextlib.contextmanager
def running(directory: pathlib.Path) -> Iterator[tuple[dict[str, str], tuple[str, ...]]]:
    """Environment and flags with which a conversion goes to this service; its logs land in `directory`.

    The launcher gets what it needs for gs:// from the worker's environment, of the same pinned versions.
    """
    storage = f"http://localhost:{_free_port()}"
    environment = {**os.environ, "STORAGE_EMULATOR_HOST": storage, "NO_GCE_CHECK": "true"}
    environment.pop("PYTHONPATH", None)
    launcher = {**environment, "PYTHONPATH": os.pathsep.join([str(ROOT), *map(str, _GCP_PACKAGES)])}
    with _storage(storage, directory), _Jobs(environment, directory) as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        flags = (
            "--runner=DataflowRunner",
            f"--dataflow_endpoint=http://localhost:{service.server_port}",
            "--no_auth",
            "--project=penstock-test",
            "--region=europe-west1",
            "--sdk_container_image=registry.example/penstock-worker:1",
            f"--temp_location=gs://{BUCKET}/temp",
            f"--staging_location=gs://{BUCKET}/staging",
        )
        yield launcher, flags
        service.shutdown()


def download(environment: Mapping[str, str], prefix: str, directory: pathlib.Path) -> None:
    """Copies every object of the bucket that starts with `prefix` into `directory`."""
    api = environment["STORAGE_EMULATOR_HOST"]
    listed = json.load(urllib.request.urlopen(f"{api}/storage/v1/b/{BUCKET}/o?prefix={prefix}"))
    for name in (item["name"] for item in listed["items"]):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        quoted = urllib.parse.quote(name, safe="")
        content = urllib.request.urlopen(f"{api}/download/storage/v1/b/{BUCKET}/o/{quoted}?alt=media")
        path.write_bytes(content.read())


@contextlib.contextmanager
def _storage(url: str, directory: pathlib.Path) -> Iterator[None]:
    port = url.rpartition(":")[2]
    command = [WORKER / "bin" / "gcp-storage-emulator", "start", "--host=localhost", f"--port={port}"]
    with (directory / "storage.log").open("w") as log:
        process = subprocess.Popen(
            [*command, f"--default-bucket={BUCKET}", "--in-memory"], stdout=log, stderr=subprocess.STDOUT
        )
        try:
            _wait_for(f"{url}/storage/v1/b/{BUCKET}")
            yield
        finally:
            process.terminate()
            process.wait()


def _wait_for(url: str) -> None:
    retry = threading.Event()
    for _ in range(_SECONDS_TO_START * 10):
        with contextlib.suppress(urllib.error.URLError):
            urllib.request.urlopen(url)
            return
        retry.wait(0.1)
    sys.exit(f"error: nothing answers at {url}")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]
