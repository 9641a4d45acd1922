"""The cluster that TF_CONFIG describes, and this process's place in it.

The `chief` leads, as in Vertex AI and Kubeflow, or worker 0 where there is no chief. Evaluators take no part:
the workers evaluate together. A cluster with parameter servers is refused.
"""

import contextlib
import dataclasses
import json
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence

import tensorflow as tf
from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2
from tensorflow.python.eager import context

from pipeline.base.cli import signals
from pipeline.base.errors import InputError, answer

VARIABLE = "TF_CONFIG"
_CHIEFS = ("chief", "master")  # TensorFlow 1 said master; Vertex AI still may
_WORKER = "worker"
_SERVER = "ps"
_LAST_PORT = 65_535


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cluster:
    """Addresses HOST:PORT of all processes that train together, the chief first, and this process's number
    among them.

    `number` is None for a process that takes no part, such as an evaluator; `task` is its name.
    """

    addresses: tuple[str, ...]
    task: str
    number: int | None

    def resolver(self) -> tf.distribute.cluster_resolver.ClusterResolver:
        """The cluster as MultiWorkerMirroredStrategy expects it: all are workers, and worker 0 leads."""
        return tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({_WORKER: list(self.addresses)}),
            task_type=_WORKER,
            task_id=self.number,
            rpc_layer="grpc",
        )


def read() -> Cluster | None:
    """The cluster of TF_CONFIG; None where it is not set, or names nobody.

    Raises:
      InputError: it is no JSON, or does not say which of the processes this is.
    """
    text = os.environ.get(VARIABLE, "").strip()
    document = _parsed(text) if text else {}
    jobs = document.get("cluster") or {}
    if not jobs:
        return None
    wrong = [each for addresses in jobs.values() for each in addresses if not _is_address(each)]
    if wrong:
        raise _error(text, f"addresses HOST:PORT with a port from 1 to {_LAST_PORT:,}, not {wrong[0]!r}")
    if jobs.get(_SERVER):
        raise _error(text, f'no "{_SERVER}" (parameter servers): the workers keep the weights themselves')
    task = document.get("task")
    kind, index = (task.get("type"), task.get("index")) if isinstance(task, dict) else (None, None)
    # A bool is an int: true would be worker 1.
    if not isinstance(kind, str) or type(index) is not int or not 0 <= index < len(jobs.get(kind, ())):
        raise _error(text, f'a "task" whose "type" is one of {", ".join(jobs)}, with an "index" in its list')
    chiefs = [address for name in _CHIEFS for address in jobs.get(name, ())]
    before = {_WORKER: len(chiefs)} | dict.fromkeys(_CHIEFS, 0)
    return Cluster(
        addresses=(*chiefs, *jobs.get(_WORKER, ())),
        task=f"{kind} {index}",
        number=before[kind] + index if kind in before else None,
    )


def ignored() -> str:
    """Names the tasks of TF_CONFIG that a run does not use, such as evaluators; empty: there are none."""
    jobs = (_parsed(os.environ.get(VARIABLE, "").strip() or "{}").get("cluster")) or {}
    names = [f"{len(jobs[name])} {name}" for name in jobs if name not in (*_CHIEFS, _WORKER) and jobs[name]]
    return f"{', '.join(names)} of {VARIABLE}: the workers evaluate together" if names else ""


def is_chief() -> bool:
    """Returns whether this process writes the files: it leads, or trains alone."""
    found = read()
    return not (found and found.number)


def _parsed(text: str) -> Mapping:
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    jobs = document.get("cluster") if isinstance(document, dict) else None
    if not isinstance(jobs or {}, dict) or not isinstance(document, dict):
        raise _error(text, "a JSON object with a cluster and a task")
    if not all(isinstance(addresses, list) for addresses in (jobs or {}).values()):
        raise _error(text, 'lists of addresses, as in {"worker": ["a:2222"]}')
    return document


def _is_address(value: object) -> bool:
    # TensorFlow 2.21 waits for ever at port 99999 (measured).
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    return bool(host) and port.isascii() and port.isdigit() and 0 < int(port) <= _LAST_PORT


def _error(text: str, expected: str) -> InputError:
    return InputError(
        f"environment variable {VARIABLE}",
        received=repr(text),
        expected=expected,
        action='Set it in every worker, e.g. {"cluster": {"worker": ["a:2222", "b:2222"]}, '
        '"task": {"type": "worker", "index": 0}}.',
    )


# --- Lost workers: the other workers end, with one line that names the worker that died or hangs.
#
# TensorFlow's workers send heartbeats to the first worker, which tells all others when one stops sending.


# No public module has them (TensorFlow 2.20 and 2.21).


# 128 and SIGUSR1's number: Kubeflow's training operator restarts a process that ends with 128 or more.
EXIT_LOST_WORKER = 138
# By default TensorFlow 2.21 needs 38 s to notice that worker 0 is stopped (measured); with this setting it
# needs 11 s.
_SILENCE_MS = 10_000
_ABORTED = "Collective ops is aborted by"
_TASK = re.compile(r"/job:worker/(?:replica:0/)?task:(\d+)")
_LEADER = 0  # number of the worker to which the heartbeats go


class LostWorkerError(InputError):
    """Raised where a worker died or hangs; the same command continues from the last checkpoint."""

    exit_code = EXIT_LOST_WORKER


def notice_silence(workers: int) -> None:
    """Makes TensorFlow give up a worker that is silent for ten seconds; call it before the strategy is made.

    The strategy would make the same configuration itself, with a longer time.
    """
    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader=f"/job:worker/replica:0/task:{_LEADER}",
        coordinated_jobs=[coordination_config_pb2.CoordinatedJob(name="worker", num_tasks=workers)],
        heartbeat_timeout_in_ms=_SILENCE_MS,
    )


@contextlib.contextmanager
def name_lost_worker() -> Iterator[None]:
    """Turns the error that every worker gets when one of TF_CONFIG's cluster is lost into a
    LostWorkerError.
    """
    try:
        yield
    except tf.errors.OpError as error:
        found = read()
        if not found or _ABORTED not in str(error):
            raise
        raise _lost(found.addresses, str(error)) from None


@contextlib.contextmanager
def ending_at_once() -> Iterator[None]:
    """Ends the process after a LostWorkerError: TensorFlow (2.21, measured) would wait for 9 s."""
    try:
        yield
    except LostWorkerError as error:
        sys.stdout.flush()
        os._exit(answer(error))


def _lost(addresses: Sequence[str], message: str) -> LostWorkerError:
    number = lost_number(message)
    return LostWorkerError(
        f"worker {number} of {len(addresses)} ({addresses[number]})",
        received="no heartbeat or a closed connection: it has ended, hangs, or cannot be reached",
        expected="heartbeats until training ends",
        action="See what that worker wrote last; the same command goes on from the last checkpoint.",
    )


def lost_number(message: str) -> int:
    """Returns the worker in TensorFlow's message: the last one that it names, else the one to which
    heartbeats go.

    A worker that reports another one is named first: `Error reported from /job:worker/task:1: The following
    tasks are unhealthy (stopped sending heartbeats): /job:worker/replica:0/task:2`.
    """
    found = _TASK.findall(message.partition(_ABORTED)[2])
    return int(found[-1]) if found else _LEADER


# --- Signals while TensorFlow waits for the other workers of a cluster.


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within the block, a signal other than SIGTERM ends the process at once.

    TensorFlow waits up to an hour for the other workers, and no Python code runs in that time (2.21,
    measured): no handler would get the signal. There is nothing yet to clean up. TensorFlow handles SIGTERM
    itself, and only logs it.
    """
    numbers = [number for number in signals.SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
