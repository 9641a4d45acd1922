"""TF_CONFIG as TensorFlow, Vertex AI and Kubeflow write it."""

import json

import pytest
import tensorflow as tf

from pipeline.base.errors import InputError, answer
from pipeline.training.engine import cluster
from pipeline.training.engine import cluster as cluster_lib

WORKERS = {"worker": ["a:1", "b:1", "c:1"]}
CHIEF = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "evaluator": ["d:1"], "ps": []}
MASTER = {"master": ["a:1"], "worker": ["b:1", "c:1"]}


def set_to(monkeypatch, jobs: dict, kind: str, index: int) -> None:
    document = {"cluster": jobs, "task": {"type": kind, "index": index}, "environment": "cloud"}
    monkeypatch.setenv("TF_CONFIG", json.dumps(document))


@pytest.mark.parametrize(
    ("jobs", "kind", "index", "number"),
    [
        (WORKERS, "worker", 0, 0),
        (WORKERS, "worker", 2, 2),
        (CHIEF, "chief", 0, 0),
        (CHIEF, "worker", 0, 1),
        (CHIEF, "worker", 1, 2),
        (MASTER, "master", 0, 0),
        (MASTER, "worker", 1, 2),
        (CHIEF, "evaluator", 0, None),
    ],
)
def test_places(monkeypatch, jobs, kind, index, number):
    set_to(monkeypatch, jobs, kind, index)
    found = cluster.read()
    assert found.addresses == ("a:1", "b:1", "c:1")
    assert found.number == number


def test_what_is_ignored_is_said(monkeypatch):
    set_to(monkeypatch, CHIEF, "chief", 0)
    assert cluster.ignored() == "1 evaluator of TF_CONFIG: the workers evaluate together"
    set_to(monkeypatch, WORKERS, "worker", 0)
    assert cluster.ignored() == ""


def test_all_are_workers_to_tensorflow(monkeypatch):
    set_to(monkeypatch, CHIEF, "worker", 1)
    resolver = cluster.read().resolver()
    assert (resolver.task_type, resolver.task_id) == ("worker", 2)
    assert resolver.cluster_spec().as_dict() == {"worker": ["a:1", "b:1", "c:1"]}


@pytest.mark.parametrize("value", ["", "  ", "{}", '{"cluster": {}}', '{"task": {"index": 0}}'])
def test_nobody_is_no_cluster(monkeypatch, value):
    monkeypatch.setenv("TF_CONFIG", value)
    assert cluster.read() is None


@pytest.mark.parametrize(
    "value",
    [
        "not json",
        "[]",
        '{"cluster": ["a:1"]}',
        '{"cluster": {"worker": "a:1"}}',
        '{"cluster": {"worker": ["a:1"]}}',
        '{"cluster": {"worker": ["a"]}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["a:0"]}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["a:99999"]}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": [2222]}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": "0"}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "chief", "index": 0}}',
    ],
)
def test_what_cannot_be_read_is_refused(monkeypatch, value):
    monkeypatch.setenv("TF_CONFIG", value)
    with pytest.raises(InputError, match=r"environment variable TF_CONFIG: received '.*'; expected .*Set it"):
        cluster.read()


@pytest.mark.parametrize(
    "task", ["worker", ["worker", 0], {"type": ["worker"], "index": 0}, {"type": "worker", "index": True}]
)
def test_a_task_that_is_none_is_refused(monkeypatch, task):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": WORKERS, "task": task}))
    with pytest.raises(InputError, match='expected a "task" whose "type" is one of worker'):
        cluster.read()


# TensorFlow 2.21's messages when a worker is lost, as measured on real ones, and what they become.

UNHEALTHY = (
    "Collective ops is aborted by: Error reported from /job:worker/task:1: The following tasks are unhealthy "
    "(stopped sending heartbeats):\n/job:worker/replica:0/task:2\nThe tasks have crashed."
)
REFUSED = (
    "/job:worker/replica:0/task:1/device:CPU:0 Collective ops is aborted by: "
    "failed to connect to all addresses\nAdditional GRPC error information from remote target "
    "/job:worker/replica:0/task:2 while calling /tensorflow.WorkerService/CompleteInstance"
)
LEADER_HANGS = (
    "Collective ops is aborted by: Deadline Exceeded\n\nRPC: /tensorflow.CoordinationService/Heartbeat"
)


@pytest.mark.parametrize(("message", "number"), [(UNHEALTHY, 2), (REFUSED, 2), (LEADER_HANGS, 0)])
def test_the_lost_worker_is_named(monkeypatch, capsys, message, number):
    cluster = {"cluster": {"worker": ["a:1", "b:2", "c:3"]}, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    with pytest.raises(cluster_lib.LostWorkerError) as caught, cluster_lib.name_lost_worker():
        raise tf.errors.UnavailableError(None, None, message)
    assert answer(caught.value) == 138
    address = cluster["cluster"]["worker"][number]
    assert capsys.readouterr().err.startswith(
        f"error: worker {number} of 3 ({address}): received no heartbeat"
    )


def test_other_errors_stay_what_they_are(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(tf.errors.UnavailableError), cluster_lib.name_lost_worker():
        raise tf.errors.UnavailableError(None, None, UNHEALTHY)
