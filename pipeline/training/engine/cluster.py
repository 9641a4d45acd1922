"""The cluster that TF_CONFIG describes, and this process's place in it.

Worker 0 of `worker` leads, or the `chief` where there is one, as Vertex AI and Kubeflow have it. Evaluators
take no part: the workers evaluate together. A cluster with parameter servers is refused.
"""

import dataclasses
import json
import os
from collections.abc import Mapping

import tensorflow as tf

from pipeline.data.errors import InputError

VARIABLE = "TF_CONFIG"
_CHIEFS = ("chief", "master")  # TensorFlow 1 said master; Vertex AI still may
_WORKER = "worker"
_SERVER = "ps"
_LAST_PORT = 65_535


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cluster:
    """Addresses HOST:PORT of all who train together, the chief first, and this process's number among them.

    `number` is None for a process that takes no part, such as an evaluator; `task` is what it is called.
    """

    addresses: tuple[str, ...]
    task: str
    number: int | None

    def resolver(self) -> tf.distribute.cluster_resolver.ClusterResolver:
        """What MultiWorkerMirroredStrategy asks: all are workers, and worker 0 leads."""
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
    """What TF_CONFIG lists and a run has no use for, such as evaluators, in words; empty: nothing."""
    jobs = (_parsed(os.environ.get(VARIABLE, "").strip() or "{}").get("cluster")) or {}
    names = [f"{len(jobs[name])} {name}" for name in jobs if name not in (*_CHIEFS, _WORKER) and jobs[name]]
    return f"{', '.join(names)} of {VARIABLE}: the workers evaluate together" if names else ""


def is_chief() -> bool:
    """Whether this process writes the files: it leads, or trains alone."""
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
