"""Runs of the soak: forks of this process, which has imported TensorFlow and computed nothing."""

import dataclasses
import hashlib
import json
import os
import pathlib
import signal
import socket
from collections.abc import Sequence

from pipeline.training.engine.cluster import EXIT_LOST_WORKER
from pipeline.training.state import checkpoints
from pipeline.training.state import workdir as workdir_lib
from pipeline.training.state.checkpoints import Kept
from tests.shared import forked
from tests.signals import processes, started
from tests.soak import hooks, lineage
from tests.soak.hooks import Plan
from tests.soak.lineage import Steps

_MAY_TAKE = 900.0  # seconds, on a machine that others use too
_PEERS_END_IN = 60.0
_SECONDS_BETWEEN_LOOKS = 0.01
_GOES_ON = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: 128 + signal.SIGTERM}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A command that trains."""

    name: str
    arguments: tuple[str, ...]  # of pipeline.train, but --workdir
    workers: int = 1
    steps: int  # of the run, unless a callback ends it
    epoch: float  # steps


@dataclasses.dataclass(frozen=True, kw_only=True)
class Process:
    """How a process of a run ended, or all that trained together."""

    code: int
    cpu_seconds: float
    steps: Steps
    stdout: str
    stderr: str


def run(case: Case, workdir: pathlib.Path, folder: pathlib.Path, plan: Plan | None = None) -> Process:
    """Runs the command once in `folder`, a new one, until it ends or the plan ends it."""
    folder.mkdir(parents=True)
    clusters = _clusters(case.workers)
    pids = [
        _start(case, workdir, folder / str(number), plan if plan and plan.worker == number else None, cluster)
        for number, cluster in enumerate(clusters)
    ]
    if plan and plan.cpu_seconds is not None and _works_for(pids[plan.worker], plan):
        os.kill(pids[plan.worker], plan.number)
    ends = [_end(pids[0], _MAY_TAKE)]
    for pid in pids[1:]:
        if ends[0][0] == -signal.SIGKILL:
            os.killpg(
                pid, signal.SIGKILL
            )  # a machine is lost as a whole; that peers end by themselves, others test
        ends.append(_end(pid, _PEERS_END_IN))
    first = folder / "0"
    return Process(
        code=_code([code for code, _ in ends], plan),
        cpu_seconds=ends[0][1],
        steps=lineage.read([path for path in sorted(folder.glob("*/ledger")) if path.exists()]),
        stdout=(first / "stdout").read_text(),
        stderr="".join((folder / str(number) / "stderr").read_text() for number in range(case.workers)),
    )


def _code(codes: Sequence[int], plan: Plan | None) -> int:
    """The code of all; 1 where they differ, unless the others lost the one that got the signal."""
    hit = codes[plan.worker if plan else 0]
    as_hit = {hit, EXIT_LOST_WORKER} if hit else {hit}
    return hit if as_hit.issuperset(codes) else 1


def is_as_planned(process: Process, plan: Plan) -> bool:
    """Whether the process ended by the signal; it may also have been faster."""
    return process.code in (0, _GOES_ON[plan.number])


def newest(workdir: pathlib.Path) -> int:
    """The step of the newest checkpoint; 0 where there is none."""
    return max((entry.step for entry in checkpoints.newest_first(workdir / "checkpoints")), default=0)


def contents(workdir: pathlib.Path) -> dict[str, str]:
    """Of all that a run leaves and that no kill may change."""
    entries = checkpoints.newest_first(workdir / "checkpoints")
    chosen = {"last": entries[0], "best": Kept(number=1, metric="val_loss").best_first(entries)[0]}
    files = {
        f"{which}, {entry.path.name}/{path.name}": path.read_bytes()
        for which, entry in chosen.items()
        for path in entry.path.glob("variables.*")
    }
    files["evaluation.json"] = (workdir / "evaluation.json").read_bytes()
    lines = [json.loads(line) for line in (workdir / "history.jsonl").read_text().splitlines()]
    kept = [{key: value for key, value in line.items() if key not in workdir_lib.MEASURED} for line in lines]
    files["history.jsonl"] = json.dumps(kept).encode()
    return {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}


def _start(case: Case, workdir: pathlib.Path, folder: pathlib.Path, plan: Plan | None, cluster: str) -> int:
    def body() -> None:
        forked.end_with_parent()
        if cluster:
            os.environ["TF_CONFIG"] = cluster
        hooks.install(folder / "ledger", plan)
        forked.run_module(["pipeline.train", *case.arguments, f"--workdir={workdir}"])

    return forked.start(body, folder)


def _clusters(workers: int) -> Sequence[str]:
    """TF_CONFIG of each worker; empty for one alone."""
    if workers == 1:
        return [""]
    servers = [socket.create_server(("localhost", 0)) for _ in range(workers)]
    addresses = [f"localhost:{server.getsockname()[1]}" for server in servers]
    for server in servers:
        server.close()
    return [
        json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})
        for index in range(workers)
    ]


def _works_for(pid: int, plan: Plan) -> bool:
    """Whether it takes so much time of the processor, from when it handles signals on."""
    while not processes.catches(pid, started.SIGNALS):
        if forked.ends_within(pid, 0.002):
            return False
    before = processes.cpu_seconds(pid)
    while processes.cpu_seconds(pid) - before < plan.cpu_seconds:
        if forked.ends_within(pid, _SECONDS_BETWEEN_LOOKS):
            return False
    return True


def _end(pid: int, seconds: float) -> tuple[int, float]:
    """Exit code and CPU seconds; a process that takes longer is killed, and its code is 1."""
    timed_out = not forked.ends_within(pid, seconds)
    if timed_out:
        os.killpg(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    code = 1 if timed_out else os.waitstatus_to_exitcode(status)
    return code, usage.ru_utime + usage.ru_stime
