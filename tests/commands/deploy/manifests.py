"""The manifests as types of the Kubernetes client, and JobSets by the schema of their definition."""

import json
import pathlib
import subprocess
from collections.abc import Iterator

from tests.commands.deploy import environments

NEEDS = ("go",)  # fetches JobSet's definition, which is a file of its Go module
MANIFESTS = ("cronjob.yaml", "tpu_jobset.yaml", "workers_jobset.yaml")
_REQUIREMENTS = ("kubernetes==37.0.2", "jsonschema==4.26.0", "pyyaml==6.0.3")
_JOBSET = "sigs.k8s.io/jobset@v0.8.0"
_DEFINITION = "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"


def check(folder: pathlib.Path) -> Iterator[str]:
    """Installs below `folder`; yields what was seen. Raises CalledProcessError where a manifest is wrong."""
    python = environments.python_with(_REQUIREMENTS, folder / "kubernetes")
    paths = [environments.written(f"kubernetes/{name}", folder) for name in MANIFESTS]
    module = json.loads(subprocess.check_output(["go", "mod", "download", "-json", _JOBSET], cwd="/"))
    definition = f"--crd={module['Dir']}/{_DEFINITION}"
    yield from environments.told_by("kubernetes_types.py", definition, *paths, python=python)
