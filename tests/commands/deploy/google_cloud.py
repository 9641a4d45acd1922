"""The recipes of Vertex AI and Cloud Scheduler as messages of Google's clients; gcloud reads the flags."""

import os
import pathlib
import subprocess
from collections.abc import Iterator

from tests.commands.deploy import environments

NEEDS = ("gcloud",)
_REQUIREMENTS = ("google-cloud-pipeline-components==2.22.0", "google-cloud-scheduler==2.21.0")
_NO_ACCOUNT = "do not currently have an active account"  # what comes after the flags were read


def check(folder: pathlib.Path) -> Iterator[str]:
    """Installs below `folder`; yields what was seen. Raises where a message or a flag is wrong."""
    python = environments.python_with(_REQUIREMENTS, folder / "google")
    job = environments.written("vertex/custom_job.json", folder)
    schedule = environments.written("vertex/schedule.json", folder)
    create = environments.written("cloud_scheduler/create_job", folder)
    yield from environments.told_by("google_messages.py", job, schedule, create, python=python)

    text = create.read_text()
    if _NO_ACCOUNT not in (said := _gcloud(create, job, folder=folder)):
        raise ValueError(said)
    create.write_text(text.replace("--attempt-deadline", "--atempt-deadline"))
    if "unrecognized arguments: --atempt-deadline" not in (said := _gcloud(create, job, folder=folder)):
        raise ValueError(said)
    create.write_text(text)
    yield "gcloud: takes the flags and stops for want of an account; refused: a flag that there is not"


def _gcloud(create: pathlib.Path, job: pathlib.Path, *, folder: pathlib.Path) -> str:
    """What the script says with a gcloud that has no configuration and no account."""
    nothing = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "home"),
        "CLOUDSDK_CONFIG": str(folder / "home"),
    }
    done = subprocess.run(["sh", create, job], env=nothing, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr
