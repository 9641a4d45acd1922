"""Strategies on a CPU in two pieces, and what is said where one cannot be had."""

import json
import socket
import subprocess

import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.batches import distributed, timed
from tests.unit.training.engine.inner_test import WITHOUT_XLA


@pytest.mark.parametrize(
    ("name", "becomes", "replicas"),
    [("auto", "mirrored", 2), ("mirrored", "mirrored", 2), ("one_device", "one_device", 1)],
)
def test_strategies_take_the_devices_there_are(name, becomes, replicas):
    made = strategy_lib.create(name)
    assert strategy_lib.name_of(made) == becomes
    assert made.num_replicas_in_sync == replicas
    assert strategy_lib.worker(made) == 0


def test_tpu_without_one_is_refused(monkeypatch):
    monkeypatch.delenv("TPU_NAME", raising=False)
    with pytest.raises(InputError, match=r"--strategy=tpu: received a machine without a TPU"):
        strategy_lib.create("tpu")


def test_multi_worker_without_a_cluster_is_refused(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(InputError, match=r"multi_worker.*TF_CONFIG: received no cluster; expected a cluster"):
        strategy_lib.create("multi_worker")


@pytest.mark.parametrize("name", ["auto", "multi_worker"])
def test_an_evaluator_is_told_that_it_is_not_needed(monkeypatch, name):
    jobs = {"chief": ["a:1"], "evaluator": ["b:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": jobs, "task": {"type": "evaluator", "index": 0}}))
    with pytest.raises(InputError, match=r"received the task evaluator 0; .*start no evaluators"):
        strategy_lib.create(name)


def test_a_chief_alone_takes_its_own_devices(monkeypatch):
    jobs = {"chief": ["a:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": jobs, "task": {"type": "chief", "index": 0}}))
    assert strategy_lib.name_of(strategy_lib.create("auto")) == "mirrored"


def test_unknown_strategy_is_refused():
    with pytest.raises(InputError, match=r"--strategy: received 'horovod'; expected auto, one_device"):
        strategy_lib.create("horovod")


@pytest.mark.parametrize("devices", [0, 1_025, 10**11])
def test_no_logical_devices_and_too_many_are_refused(devices: int):
    with pytest.raises(InputError, match=rf"--logical_devices: received {devices}; expected 1 to 1,024"):
        strategy_lib.create(logical_devices=devices)


@pytest.mark.parametrize(("batch", "nearest"), [(33, 32), (1, 2), (0, 2), (-4, 2)])
def test_batch_must_divide_among_replicas(batch, nearest):
    with pytest.raises(
        InputError, match=rf"received {batch}; .*2 replicas. Set --config.global_batch={nearest}"
    ):
        strategy_lib.require_divisible("global_batch", batch, strategy_lib.create("mirrored"))


def test_batch_that_divides_passes():
    strategy_lib.require_divisible("global_batch", 32, strategy_lib.create("mirrored"))


def test_xla_is_reported_as_it_really_is():
    is_on, reason = strategy_lib.jit_compile(True, strategy_lib.create("one_device"))
    assert (is_on, reason == "asked for") == (not WITHOUT_XLA, not WITHOUT_XLA)
    assert strategy_lib.jit_compile(False, strategy_lib.create("one_device")) == (False, "not asked for")
    is_on, reason = strategy_lib.jit_compile(True, strategy_lib.create("mirrored"))
    assert not is_on
    assert "several replicas" in reason


def test_xla_is_off_over_workers_whatever_replicas_one_has(monkeypatch, warm_python):
    with socket.create_server(("localhost", 0)) as free:
        address = f"localhost:{free.getsockname()[1]}"
    task = {"type": "worker", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"worker": [address]}, "task": task}))
    code = (
        "from pipeline.training.engine import strategy; made = strategy.create('multi_worker'); "
        "print(made.num_replicas_in_sync, strategy.jit_compile(True, made))"
    )
    found = subprocess.run([str(warm_python), "-c", code], capture_output=True, text=True, check=True).stdout
    assert "1 (False, 'asked for, but TensorFlow has no XLA for the sums over workers on a CPU')" in found


def test_a_port_that_is_taken_is_told(monkeypatch, warm_python):
    with socket.create_server(("localhost", 0)) as taken:
        address = f"localhost:{taken.getsockname()[1]}"
        jobs = {"worker": [address, "localhost:2"]}
        task = {"type": "worker", "index": 0}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": jobs, "task": task}))
        code = "from pipeline.training.engine import strategy; strategy.create('multi_worker')"
        failed = subprocess.run([warm_python, "-c", code], capture_output=True, text=True, check=False)
    assert f"TF_CONFIG, {address}: received a port that this worker cannot open" in failed.stderr


def test_xla_is_off_where_tensorflow_has_no_compiler(monkeypatch):
    def without(function, *, jit_compile: bool = False, **rest: object):
        def refuse() -> None:  # what tensorflow-tpu 2.20.0 raises on a machine without a TPU
            raise tf.errors.InvalidArgumentError(None, None, "could not find XLA compiler for device CPU:0")

        return refuse if jit_compile else function

    monkeypatch.setattr(tf, "function", without)
    is_on, reason = strategy_lib.jit_compile(True, strategy_lib.create("one_device"))
    assert not is_on
    assert reason.startswith("asked for, but this TensorFlow has no XLA compiler")


# Batches of replicas: shares of each under several, the dataset itself on a single CPU.


def count(context: tf.distribute.InputContext) -> tf.data.Dataset:
    return tf.data.Dataset.range(6).batch(context.get_per_replica_batch_size(2))


@pytest.mark.parametrize(
    ("name", "expected"), [("one_device", [[[0, 1]], [[2, 3]]]), ("mirrored", [[[0], [1]], [[2], [3]]])]
)
def test_each_replica_gets_its_share(name, expected):
    strategy = strategy_lib.create(name)
    batches = iter(distributed(strategy, count))
    found = [strategy.experimental_local_results(next(batches)) for _ in range(2)]
    assert [[part.numpy().tolist() for part in parts] for parts in found] == expected


def test_on_one_cpu_nothing_is_copied_to_a_device():
    assert isinstance(distributed(strategy_lib.create("one_device"), count), tf.data.Dataset)


@pytest.mark.parametrize("name", ["one_device", "mirrored"])
def test_batches_are_as_they_were_and_made_one_after_the_other(name):
    strategy = strategy_lib.create(name)
    batches, making = timed(strategy, count)
    made = []
    for batch, plain in zip(batches, distributed(strategy, count), strict=True):
        made += [float(time) for time in making()]
        assert strategy.experimental_local_results(batch)[0].numpy().tolist() == (
            strategy.experimental_local_results(plain)[0].numpy().tolist()
        )
    assert made == sorted(made) and len(made) == 6


def test_where_the_clock_is_forbidden_nothing_is_known():
    assert timed(strategy_lib.create("one_device"), count, is_deterministic=True)[1] is None
