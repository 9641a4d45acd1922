"""A data service on a host with a dataset of its own: a process that sees another directory at that path."""

import contextlib
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator

from tests.shared import data_servers
from tests.underfoot import trial
from tests.underfoot.subjects import Subject

NAME = "service"
_AHEAD = 500  # steps, at most


def trials(subject: Subject, folder: pathlib.Path) -> Iterator[tuple[str, list[str]]]:
    """Each change on that host, with what is wrong with how the run ended; none where nobody may mount."""
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
        print("service: left out, as only root may give a process a directory of its own")
        return
    empty = folder / "empty"
    empty.mkdir(parents=True, exist_ok=True)
    for kind, there in {"another dataset there": subject.other, "no dataset there": empty}.items():
        yield kind, _faults(subject, folder, folder / kind.replace(" ", "_"), there)


def _faults(subject: Subject, folder: pathlib.Path, process: pathlib.Path, there: pathlib.Path) -> list[str]:
    subject.publish()
    with _serving(subject.directory) as (address, mount):
        flag = f"--data_service={address}"
        try:
            ended = trial.disturbed(subject, folder / "run", process, lambda: mount(there), flag)
        except trial.TooLateError as error:
            return [f"it had ended before the change: {error}"]
    # What a service has prepared before is sound: the last run ends with the right bytes.
    return ended.faults("--data_service", ahead=_AHEAD)


@contextlib.contextmanager
def _serving(directory: pathlib.Path) -> Iterator[tuple[str, Callable[[pathlib.Path], None]]]:
    """The address of a service, and what puts another directory there, for the service alone."""
    command = ["unshare", "--mount", sys.executable, "-m", "pipeline.data_service", "--port=0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def mount(there: pathlib.Path) -> None:
        inside = ["nsenter", f"--target={process.pid}", "--mount"]
        subprocess.run([*inside, "mount", "--bind", str(there), str(directory)], check=True)

    try:
        yield data_servers.address_of(process), mount
    finally:
        data_servers.kill(process)
