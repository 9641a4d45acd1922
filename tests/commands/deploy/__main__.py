"""Holds the recipes of deploy/ against the programs and libraries that read them, as far as one machine goes.

  make deploy-check
  python -m tests.commands.deploy --only=systemd

image       the Dockerfile's instructions in a fresh Debian; then the demo retrains there
systemd     systemd-analyze verify
kubernetes  the manifests as types of its client, and by JobSet's schema
airflow     the DAG by `airflow dags test`, on roots that make the command answer 0, 75 and 2
java        an export in TensorFlow's Java library, through deploy/java
google      the messages of Vertex AI and Cloud Scheduler by their clients; gcloud reads the flags
"""

import pathlib
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from absl import app, flags

from tests.commands.deploy import dags, google_cloud, java, manifests, recipes, rehearsal, units

_CHECKS: Mapping[str, tuple[Sequence[str], Callable[[pathlib.Path], Iterator[str]]]] = {
    "image": (rehearsal.NEEDS, rehearsal.check),
    "systemd": (units.NEEDS, units.check),
    "kubernetes": (manifests.NEEDS, manifests.check),
    "airflow": (dags.NEEDS, dags.check),
    "java": (java.NEEDS, java.check),
    "google": (google_cloud.NEEDS, google_cloud.check),
}
_ONLY = flags.DEFINE_list("only", list(_CHECKS), "Which checks.")
_FOLDER = flags.DEFINE_string("folder", "build/deploy", "DIRECTORY: everything lands here.")


def main(argv: Sequence[str]) -> None:
    del argv
    folder = recipes.CHECKOUT / _FOLDER.value
    folder.mkdir(parents=True, exist_ok=True)
    faults = sum(not _checked(name, folder) for name in _ONLY.value)
    print(f"{faults} faults")
    sys.exit(bool(faults))


def _checked(name: str, folder: pathlib.Path) -> bool:
    """Runs a check and tells of it; False where it fails. One whose programs are not here is left out."""
    needs, check = _CHECKS[name]
    if missing := [program for program in needs if not shutil.which(program)]:
        print(f"{name}: NOT CHECKED, {', '.join(missing)} not found", flush=True)
        return True
    began = time.monotonic()
    try:
        for seen in check(folder):
            print(f"{name}: {seen}", flush=True)
    except Exception as error:
        print(f"{name}: FAULT: {error} {getattr(error, 'output', '') or ''}", flush=True)
        return False
    print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    return True


if __name__ == "__main__":
    app.run(main)
