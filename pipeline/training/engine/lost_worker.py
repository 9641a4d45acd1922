"""A worker of a cluster that died or hangs: the others end, in one line that names it.

TensorFlow's workers send heartbeats to the first of them, which tells all when one falls silent.
"""

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Sequence

import tensorflow as tf

# No public module has them (TensorFlow 2.20 and 2.21).
from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2
from tensorflow.python.eager import context

from pipeline.data.errors import InputError, answer
from pipeline.training.engine import cluster

# 128 and SIGUSR1's number: Kubeflow's training operator starts a process anew that ends with 128 or more.
EXIT_LOST_WORKER = 138
# Left to itself TensorFlow 2.21 needs 38 s to see that worker 0 is stopped (measured); so it takes 11.
_SILENCE_MS = 10_000
_ABORTED = "Collective ops is aborted by"
_TASK = re.compile(r"/job:worker/(?:replica:0/)?task:(\d+)")
_LEADER = 0  # to which the heartbeats go


class LostWorkerError(InputError):
    """A worker died or hangs; the same command goes on from the last checkpoint."""

    exit_code = EXIT_LOST_WORKER


def notice_silence(workers: int) -> None:
    """Makes TensorFlow give up a worker that is silent for ten seconds; call it before the strategy is made.

    The strategy would configure the same, but for the seconds.
    """
    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader=f"/job:worker/replica:0/task:{_LEADER}",
        coordinated_jobs=[coordination_config_pb2.CoordinatedJob(name="worker", num_tasks=workers)],
        heartbeat_timeout_in_ms=_SILENCE_MS,
    )


@contextlib.contextmanager
def named() -> Iterator[None]:
    """Turns the error that all get when a worker of TF_CONFIG's cluster is lost into a LostWorkerError."""
    try:
        yield
    except tf.errors.OpError as error:
        found = cluster.read()
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
        expected="an answer until training ends",
        action="See what that worker wrote last; the same command goes on from the last checkpoint.",
    )


def lost_number(message: str) -> int:
    """Which worker TensorFlow's message is about: the last that it names, else the one that heartbeats go to.

    A worker that tells of another is named first: `Error reported from /job:worker/task:1: The following
    tasks are unhealthy (stopped sending heartbeats): /job:worker/replica:0/task:2`.
    """
    found = _TASK.findall(message.partition(_ABORTED)[2])
    return int(found[-1]) if found else _LEADER
