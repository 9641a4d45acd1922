"""The recipes as a user has them: filled, with a folder of a retraining that the real command answers for."""

import contextlib
import fcntl
import os
import pathlib
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping

from deploy import recipe as recipe_lib
from pipeline.base.errors import EXIT_BAD_INPUT, EXIT_TRY_AGAIN
from pipeline.retraining.reconcile import EXIT_REJECTED

CHECKOUT = pathlib.Path(__file__).parents[3]
AGAIN = EXIT_TRY_AGAIN
TOLD = (EXIT_BAD_INPUT, EXIT_REJECTED)  # somebody must know, and calling again changes nothing

_OTHERS = {
    "USER": "root",
    "MAILTO": "who@example.org",
    "ON_FAILURE": "tell.service",
    "IMAGE": "example.org/penstock:1",
    "VOLUME_CLAIM": "taxi",
    "TPU_ACCELERATOR": "tpu-v5-lite-podslice",
    "TPU_TOPOLOGY": "2x4",
    "TPU_CHIPS": "8",
    "PROJECT": "taxi-1",
    "REGION": "europe-west4",
    "SERVICE_ACCOUNT": "retrain@taxi-1.iam.gserviceaccount.com",
    "NETWORK": "projects/1/global/networks/files",
    "NFS_SERVER": "10.0.0.2",
    "NFS_PATH": "/taxi",
    "BUCKET": "taxi-1-pipelines",
}


def settings(root: pathlib.Path) -> dict[str, str]:
    """A value for each setting that there is; the config is the demo's."""
    ours = {
        "CONFIG": f"{CHECKOUT}/demo/retraining.py",
        "ROOT": f"{root}",
        "CHECKOUT": f"{CHECKOUT}",
        "EXPERIMENT": f"{CHECKOUT}/pipeline/configs/tabular.py",
        "DATASET": f"{root}/spans/dataset",
        "WORKDIR": f"{root}/run",
    }
    return _OTHERS | ours


def filled(path: str, values: Mapping[str, str]) -> str:
    """The recipe deploy/PATH."""
    return recipe_lib.filled((CHECKOUT / "deploy" / path).read_text(), values, settings="mine.env")


def on_hold(root: pathlib.Path) -> None:
    """A root that reconcile looks at and leaves: exit code 0."""
    root.mkdir()
    (root / "HOLD").write_text("until a person has looked")


@contextlib.contextmanager
def busy(root: pathlib.Path) -> Iterator[None]:
    """While it lasts, another process retrains in the root: exit code 75."""
    descriptor = os.open(root, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)


def answers(words: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs the command line of a recipe, `PYTHON -m MODULE …`, with the Python of this environment."""
    return subprocess.run(
        [sys.executable, *words[1:]], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )


def words(line: str) -> list[str]:
    return shlex.split(line)
