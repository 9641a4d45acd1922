"""Shares of a global batch: those of all hosts are the whole, in order; and the cores of this process."""

import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.reading import sharding
from pipeline.data.reading.sharding import Share, host_cores, share_of_context


def test_hosts_take_consecutive_runs_of_each_global_batch():
    first, second = (Share(global_batch=4, replicas=2, shard_count=2, shard_index=host) for host in (0, 1))
    assert first.of(tf.range(8)).numpy().tolist() == [0, 1, 4, 5]
    assert second.of(tf.range(8)).numpy().tolist() == [2, 3, 6, 7]


def test_services_take_whole_turns():
    share = Share(global_batch=2, service_count=3, service_index=1)
    turns = share.positions(10, batches=2).take(2)
    assert [turn.numpy().tolist() for turn in turns] == [[14, 15, 16, 17], [26, 27, 28, 29]]


def test_a_strategys_context_tells_the_share():
    context = tf.distribute.InputContext(num_input_pipelines=2, input_pipeline_id=1, num_replicas_in_sync=4)
    share = Share(global_batch=8, replicas=4, shard_count=2, shard_index=1)
    assert share_of_context(context, global_batch=8) == share


def test_a_batch_that_replicas_cannot_share_is_refused():
    with pytest.raises(InputError, match="received 9; expected a positive multiple of the 2 replicas"):
        Share(global_batch=9, replicas=2)


def test_hosts_that_cannot_feed_as_many_replicas_each_are_refused():
    with pytest.raises(InputError, match="hosts that read: received 3 for 4 replicas"):
        Share(global_batch=8, replicas=4, shard_count=3)


def test_services_that_cut_batches_take_runs_of_the_hosts_run():
    host = {"global_batch": 20, "replicas": 2, "shard_count": 2, "shard_index": 1}
    shares = [Share(**host, service_count=3, service_index=each, cuts_batches=True) for each in range(3)]
    assert [share.run for share in shares] == [(10, 13), (13, 16), (16, 20)]
    with pytest.raises(InputError, match="received 11 services; expected 10 at most"):
        Share(**host, service_count=11, cuts_batches=True)


def test_positions_are_those_of_the_hosts_run_in_each_of_several_batches():
    share = Share(global_batch=6, replicas=3, shard_count=3, shard_index=1)
    assert share.positions_from(tf.constant(12, tf.int64), batches=2).numpy().tolist() == [14, 15, 20, 21]


@pytest.mark.parametrize(("quota", "cores"), [("max 100000", 64.0), ("150000 100000", 1.5)])
def test_a_containers_quota_counts(tmp_path, monkeypatch, quota, cores):
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(sharding, "CPU_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(sharding.os, "sched_getaffinity", lambda pid: range(64))
    assert host_cores() == cores


def test_a_system_that_tells_nothing_is_no_error(tmp_path, monkeypatch):
    monkeypatch.setattr(sharding, "CPU_QUOTA", tmp_path / "absent")
    monkeypatch.delattr(sharding.os, "sched_getaffinity")
    assert host_cores() >= 1
