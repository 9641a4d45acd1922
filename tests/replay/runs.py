"""Trains a subject: each part in processes of its own, which kill -9 ends in the middle of a step."""

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import random
import select
import signal
import socket
from collections.abc import Sequence

from pipeline.training.run import run
from tests.pipeline.training.replaying.recorded import Batch
from tests.replay import received, subjects
from tests.replay.subjects import STEPS, Hosts, Subject
from tests.shared import forked

_SLOWEST_S = 300
_LOST_S = 30  # until workers that lost one are killed, too


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trained:
    """A run that went to its end, and what its steps received: more than once, where a kill undid some."""

    workdir: pathlib.Path
    received: dict[int, list[Batch]]  # by step, from 0

    @property
    def repeated(self) -> int:
        """Steps that were trained more than once."""
        return sum(len(batches) > 1 for batches in self.received.values())


def train(subject: Subject, folder: pathlib.Path, draw: random.Random, *, steps: int = STEPS) -> Trained:
    """Trains all parts of the subject; `draw` chooses the steps in which it is killed.

    Call it before TensorFlow computes anything in this process.
    """
    folder.mkdir(parents=True)
    subjects.write_datasets(subject, folder)
    kills = sorted(draw.sample(range(3, steps - 3), len(subject.parts) - 1))
    found: dict[int, list[Batch]] = {}
    for number, (hosts, killed_in) in enumerate(zip(subject.parts, [*kills, None], strict=True)):
        part = _Part(subject=subject, folder=folder, number=number, hosts=hosts, killed_in=killed_in)
        for step, batch in part.train(steps).items():
            found.setdefault(step, []).append(batch)
    if sorted(found) != list(range(steps)):
        raise RuntimeError(f"{subject.name}: not every step was recorded: {sorted(found)}")
    return Trained(workdir=folder / "run", received=found)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Part:
    subject: Subject
    folder: pathlib.Path
    number: int
    hosts: Hosts
    killed_in: int | None

    def train(self, steps: int) -> dict[int, Batch]:
        """What each step of the part received."""
        clusters = _clusters(self.hosts.workers)
        children = [
            forked.start(functools.partial(self._process, index, cluster, steps), self._output(index))
            for index, cluster in enumerate(clusters)
        ]
        self._check(_codes(children))
        files = [self._ledger(index) for index in range(len(clusters))]
        return received.received(files, replicas=self.hosts.workers * self.hosts.replicas)

    def _process(self, index: int, cluster: str, steps: int) -> None:
        if cluster:
            os.environ["TF_CONFIG"] = cluster
        received.record(self._ledger(index), killed_in=self.killed_in)
        run.train(subjects.request(self.subject, self.folder, self.hosts, steps=steps))

    def _check(self, codes: Sequence[int]) -> None:
        """One process at least was killed where it should be, and none where not."""
        is_right = -signal.SIGKILL in codes if self.killed_in is not None else not any(codes)
        if not is_right:
            raise RuntimeError(f"{self.subject.name}, part {self.number}: ended with {codes}: {self.folder}")

    def _ledger(self, index: int) -> pathlib.Path:
        return self.folder / f"received-{self.number}-{index}"

    def _output(self, index: int) -> pathlib.Path:
        return self.folder / f"output-{self.number}-{index}"


def _codes(children: Sequence[int]) -> list[int]:
    """How the processes ended; those that do not end soon after the first are killed."""
    if not _one_ends(children, _SLOWEST_S):
        raise RuntimeError(f"no process ended within {_SLOWEST_S} s")
    for child in children:
        if not forked.ends_within(child, _LOST_S):
            os.killpg(child, signal.SIGKILL)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def _one_ends(children: Sequence[int], seconds: float) -> bool:
    descriptors = [os.pidfd_open(child) for child in children]
    try:
        return bool(select.select(descriptors, [], [], seconds)[0])
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _clusters(workers: int) -> list[str]:
    """TF_CONFIG of each worker; empty where there is only one."""
    if workers == 1:
        return [""]
    with contextlib.ExitStack() as open_:
        servers = [open_.enter_context(socket.create_server(("localhost", 0))) for _ in range(workers)]
        addresses = [f"localhost:{server.getsockname()[1]}" for server in servers]
    return [
        json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})
        for index in range(workers)
    ]
