"""Datasets that change under real runs: each run ends in one line, saves nothing after it, and then goes on.

A run is stopped at its third log point, the dataset changes, and the run goes on until it ends. Then the
dataset is restored, and the same command goes on, to meet the next change. After all of them it must end with
the bytes of a run that nobody disturbed.
"""

import contextlib
import dataclasses
import functools
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TextIO

from pipeline.base.errors import EXIT_BAD_INPUT
from pipeline.data.dataset import manifest, shards
from tests.shared import data_servers, forked
from tests.shared.small_run import SCHEMA, rows
from tests.shared.tiny_dataset import write_dataset
from tests.soak import commands
from tests.soak.harness import ROOT, Row, Soak

_COUNTS = {"train": 4_000, "validation": 50, "test": 50}
_LINES = 3  # of log points; then the dataset changes
_STEPS, _LOGGED = 3_000, 20  # of a run, and between its log points
_AHEAD = 500  # steps that a data service may have prepared
_CONFIG = (
    *("pipeline.train", "--config=pipeline/configs/tabular.py", "--config.global_batch=16"),
    *("--config.model.embedding=2", "--config.model.hidden=8", "--config.model.dropout=0.2"),
    *(
        f"--config.train.steps={_STEPS}",
        "--config.train.steps_per_loop=4",
        "--config.evaluation.every_epochs=6",
    ),
    *(f"--config.train.log_every_steps={_LOGGED}", f"--config.train.checkpoint_every_steps={2 * _LOGGED}"),
)
_SERVED = ("--config.global_batch=512", "--config.evaluation.every_epochs=384")
# A change of a file, given the same file of another dataset of the same schema and size.
Change = Callable[[pathlib.Path, pathlib.Path], object]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Way:
    """How the dataset is stored and read."""

    layout: str
    shards: int
    shuffle: str
    flags: tuple[str, ...] = ()


WAYS: Mapping[str, Way] = {
    "single": Way(layout="rows", shards=2, shuffle="global"),
    "windows": Way(layout="rows", shards=2, shuffle="windows"),
    "mapped": Way(layout="blocks", shards=1, shuffle="global"),
    "copied": Way(layout="blocks", shards=2, shuffle="global"),  # what is mapped, of several small shards
    # A service prepares as many rows at once as of any batch: the larger, the fewer steps. 384 epochs end
    # with the run, whose last checkpoint is then evaluated.
    "service": Way(layout="rows", shards=2, shuffle="windows", flags=_SERVED),
}


def _overwritten(path: pathlib.Path, other: pathlib.Path) -> None:
    """In place, with as many bytes, and the old times put back."""
    times, content = path.stat(), path.read_bytes()
    with path.open("r+b") as file:
        file.write(content[::-1])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def _replaced(path: pathlib.Path, other: pathlib.Path) -> None:
    """By another file of the same size and times."""
    times, new = path.stat(), path.with_name("new")
    new.write_bytes(path.read_bytes()[::-1])
    os.utime(new, ns=(times.st_atime_ns, times.st_mtime_ns))
    new.replace(path)


def _grown(path: pathlib.Path, other: pathlib.Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def _moved(directory: pathlib.Path, other: pathlib.Path) -> None:
    directory.rename(directory.with_name("before"))


def _swapped(directory: pathlib.Path, other: pathlib.Path) -> None:
    _moved(directory, other)
    shutil.copytree(other, directory)


def _deleted(path: pathlib.Path, other: pathlib.Path) -> None:
    path.unlink()


# By what changes: a shard, its index, the manifest, or the directory.
CHANGES: Mapping[str, Change] = {
    "shard truncated": lambda path, other: os.truncate(path, path.stat().st_size // 2),
    "shard emptied": lambda path, other: os.truncate(path, 0),
    "shard grown": _grown,
    "shard overwritten in place": _overwritten,
    "shard replaced": _replaced,
    "shard of another dataset": lambda path, other: shutil.copy2(other, path),
    "shard deleted": _deleted,
    "index overwritten in place": _overwritten,
    "index replaced": _replaced,
    "index deleted": _deleted,
    "manifest of another dataset": lambda path, other: shutil.copy2(other, path),
    "manifest deleted": _deleted,
    "directory swapped": _swapped,
    "directory moved": _moved,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    """A way of reading, with a dataset and another one, and the run on them; all below a folder."""

    way: Way
    folder: pathlib.Path

    @property
    def directory(self) -> pathlib.Path:
        return self.folder / "dataset"

    def write(self) -> None:
        for number, name in enumerate(("published", "other")):
            splits = {
                split: rows(count, seed=10 * number + i) for i, (split, count) in enumerate(_COUNTS.items())
            }
            write_dataset(self.folder / name, SCHEMA, splits, shards=self.way.shards, layout=self.way.layout)

    def restore(self) -> None:
        """Puts the published dataset where the run finds it, in new files."""
        for name in ("dataset", "before"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        shutil.copytree(self.folder / "published", self.directory)

    def arguments(self, workdir: str, *flags: str) -> tuple[str, ...]:
        shuffle = f"--config.shuffle={self.way.shuffle}"
        given = (f"--dataset={self.directory}", f"--workdir={self.folder / workdir}")
        return (*_CONFIG, shuffle, *given, *self.way.flags, *flags)

    def change(self, kind: str) -> str:
        """Makes the change; returns the file or directory that must be named."""
        shard = sorted(self.directory.glob("*-train.tfrecord-*"))[-1].name
        names = {
            "shard": shard,
            "index": shards.file_name(shard),
            "manifest": manifest.FILE_NAME,
            "directory": "",
        }
        name = names[kind.split()[0]]
        CHANGES[kind](self.directory / name, self.folder / "other" / name)
        return str(self.directory / name)


def faults(soak: Soak, *, way: str) -> Iterator[str]:
    """What is wrong with how runs end, and with the end of the run that met all changes."""
    subject = Subject(way=WAYS[way], folder=soak.folder)
    made = forked.call(subject.write, soak.folder / "made", timeout=300)
    if made.code:
        raise RuntimeError(made.stderr)
    if way == "service":
        yield from _service_faults(subject)
    else:
        for kind in soak.draw().sample(list(CHANGES), min(soak.count, len(CHANGES))):
            afresh = (False, True) if "truncated" in kind else (False,)  # the latter is killed by SIGBUS
            for each in afresh:
                change = functools.partial(subject.change, kind)
                yield from (f"{kind}: {fault}" for fault in _disturbed(subject, change, afresh=each))
    subject.restore()
    for workdir in ("whole", "run"):
        commands.finish(subject.arguments(workdir), soak.folder / f"last-{workdir}")
    from tests.soak.kill_training import contents

    whole, found = (contents(soak.folder / workdir) for workdir in ("whole", "run"))
    yield from (f"{name} is another than undisturbed" for name in whole if whole[name] != found.get(name))


def _disturbed(
    subject: Subject, change: Callable[[], str], *flags: str, afresh: bool = False, ahead: int = 0
) -> Iterator[str]:
    """Makes the change when a run has printed its third log point; what is wrong with how the run ends."""
    subject.restore()
    folder, workdir = subject.folder / "process", subject.folder / "run"
    pid, output = _start(subject.arguments("run", *flags), folder, afresh=afresh)
    with output:
        points = (line for line in output if line.startswith("step "))
        count = len(list(itertools.islice(points, _LINES)))
        os.kill(pid, signal.SIGSTOP)
        _, status = os.waitpid(pid, os.WUNTRACED)
        if count < _LINES or not os.WIFSTOPPED(status):
            yield f"it had ended before the change: {(folder / 'stderr').read_text()}"
            return
        changed_at, named = _logged(workdir), change()
        os.kill(pid, signal.SIGCONT)
        output.read()  # to its end: what nobody reads would stop the run
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    lines = [*filter(_counts, (folder / "stderr").read_text().splitlines())]
    if code != EXIT_BAD_INPUT:
        yield f"exit code {code}"
    if len(lines) != 1 or not lines[0].startswith("error: "):
        yield f"{len(lines)} lines: {' | '.join(lines)[:600]}"
    elif named not in lines[0] or ("estore" not in lines[0] and "epeat" not in lines[0]):
        yield f"{named}, or the next action, is not named: {lines[0]}"
    from tests.soak.kill_training import newest

    # The log point of the interval in which the change came may have been checked before it.
    for what, step in (("a log point", _logged(workdir)), ("a checkpoint", newest(workdir))):
        if step > changed_at + _LOGGED + ahead:
            yield f"{what} of step {step}, changed after step {changed_at}"


def _start(arguments: tuple[str, ...], folder: pathlib.Path, *, afresh: bool) -> tuple[int, TextIO]:
    """The process id of the command, and its stdout."""
    reads, writes = os.pipe()

    def body() -> None:
        os.dup2(writes, 1)
        os.close(writes)
        os.chdir(ROOT)
        if afresh:
            os.execv(sys.executable, [sys.executable, "-m", *arguments])
        forked.run_module(arguments)

    pid = forked.start(body, folder)
    os.close(writes)
    return pid, os.fdopen(reads)


def _logged(workdir: pathlib.Path) -> int:
    """The step of the last log point."""
    whole = (workdir / "history.jsonl").read_text().rpartition("\n")[0]
    return json.loads(whole.splitlines()[-1])["step"]


def _counts(line: str) -> bool:
    """Whether it counts: a failed read is named when it is tried again, before the file is seen to differ."""
    return bool(line.strip()) and not line.startswith("warning    a read failed")


def _service_faults(subject: Subject) -> Iterator[str]:
    """On the host of a data service, another directory, or none, stands at that path."""
    empty = subject.folder / "empty"
    empty.mkdir()
    for kind, there in {"another dataset there": subject.folder / "other", "no dataset there": empty}.items():
        subject.restore()
        with _serving(subject.directory) as (address, mount):
            flag = f"--data_service={address}"
            change = lambda there=there, mount=mount: mount(there)  # noqa: E731 - one line
            yield from (f"{kind}: {fault}" for fault in _disturbed(subject, change, flag, ahead=_AHEAD))


@contextlib.contextmanager
def _serving(directory: pathlib.Path) -> Iterator[tuple[str, Callable[[pathlib.Path], str]]]:
    """The address of a service, and what puts another directory there, for the service alone."""
    command = ["unshare", "--mount", sys.executable, "-m", "pipeline.data_service", "--port=0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def mount(there: pathlib.Path) -> str:
        inside = ["nsenter", f"--target={process.pid}", "--mount"]
        subprocess.run([*inside, "mount", "--bind", str(there), str(directory)], check=True)
        return "--data_service"

    try:
        yield data_servers.address_of(process), mount
    finally:
        data_servers.kill(process)


def _may_not_mount(soak: Soak) -> str:
    tried = subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True)
    return "only root may give a process a directory of its own" if tried.returncode else ""


ROWS = tuple(
    Row(
        name=f"mutation/{way}",
        sentence=f"Changes a dataset, in up to {len(CHANGES)} ways, under a run that reads it by {way}.",
        faults=functools.partial(faults, way=way),
        lacks=_may_not_mount if way == "service" else lambda soak: "",
    )
    for way in WAYS
)
