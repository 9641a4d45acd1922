"""TensorFlow 2.21's messages when a worker is lost, as measured on real ones, and what they become."""

import json

import pytest
import tensorflow as tf

from pipeline.base.errors import answer
from pipeline.training.engine import cluster as cluster_lib

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
