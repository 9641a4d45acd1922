"""What a Dataflow worker would do with a job: install what was staged for it, then run its pipeline.

Reads the job as JSON from standard input; runs in an environment that does not hold this project.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

_EMBEDDED = "beam:env:embedded_python:v1"


def fetch(location: str) -> bytes:
    with FileSystems.open(location, compression_type="uncompressed") as file:
        return file.read()


def gs(location: str) -> str:
    """`storage.googleapis.com/bucket/name`, as jobs name staged files, as a URL."""
    return location if "://" in location else "gs://" + location.partition("/")[2]


def install(job: dict, code: pathlib.Path) -> list[str]:
    """Installs the job's wheels into `code`; returns the names of everything that was staged."""
    packages = {
        package["name"]: gs(package["location"])
        for pool in job["environment"]["workerPools"]
        for package in pool.get("packages", [])
    }
    for name in (name for name in packages if name.endswith(".whl")):
        wheel = code / name
        wheel.write_bytes(fetch(packages[name]))
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target")
        subprocess.run([*pip, str(code), str(wheel)], check=True)
    sys.path.insert(0, str(code))
    return sorted(packages)


def main() -> int:
    job = json.load(sys.stdin)
    options = job["environment"]["sdkPipelineOptions"]["options"]
    pipeline = beam_runner_api_pb2.Pipeline.FromString(fetch(options["pipelineUrl"]))
    for environment in pipeline.components.environments.values():
        environment.urn, environment.payload = _EMBEDDED, b""
    with tempfile.TemporaryDirectory() as code:
        print("staged:", *install(job, pathlib.Path(code)))
        result = FnApiRunner().run_via_runner_api(pipeline, PipelineOptions(["--no_auth"]))
        print("ran from:", sys.modules["beam_jobs"].__file__, result.state)
    return 0 if result.state == "DONE" else 1


if __name__ == "__main__":
    sys.exit(main())
