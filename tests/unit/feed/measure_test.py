"""Speeds per example, of stages taken apart, read from the disk, and what a process used of its host."""

import dataclasses
import mmap
import os
import pathlib
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.input.stages import Recipe, Stage
from pipeline.data.reading.sharding import host_cores
from pipeline.feed import measure
from pipeline.feed.measure import Drawn, Span, Uncached, hold, per_stage, size_of
from tests.shared.matrix import quick_cases

SPAN = Span(wall_s=10.0, cpu_s=5.0, queued_s=0.0, others_s=0.0)
DRAWN = Drawn(elements=[1, 10, 10, 2], seconds=[2.0, 1.0, 1.0, 6.0], span=SPAN, memory_bytes=9)


def test_the_median_window_after_the_warm_up_counts():
    assert DRAWN.elements_per_s == 10.0
    assert measure.summarize(DRAWN, examples=100).examples_per_s == 1_000.0


def test_everything_costs():
    found = measure.summarize(DRAWN, examples=100)
    assert found.cpu_us == 1e6 * 5.0 / 2_200  # the warm-up is not in it
    assert found.wanted_cores == pytest.approx(10.0 * 5.0 / 22)  # what the median window keeps busy
    assert found.memory_bytes == 9


def test_threads_that_waited_for_a_core_wanted_it():
    waited = dataclasses.replace(DRAWN, span=dataclasses.replace(SPAN, queued_s=45.0))
    assert measure.summarize(waited, examples=100).wanted_cores == 5.0


def test_every_element_is_consumed():
    consumed = tf.Variable(0, dtype=tf.int64)

    def consume(number: tf.Tensor) -> tuple:
        return (number + 0 * consumed.assign_add(1),)

    drawn = measure.draw_batches(tf.data.Dataset.range(1 << 40).map(lambda n: (n,)), 0.05, consume)
    assert consumed == sum(drawn.elements) + 1  # the one that starts the clock


def test_slow_elements_are_waited_for():
    drawn = measure.draw_batches(tf.data.Dataset.range(1 << 40).map(lambda n: (n,)), seconds=-1.0)
    assert drawn.elements == [1] * (measure.WINDOWS + 1)


def test_a_pipeline_with_python_in_it_can_be_left():
    def count(number: np.ndarray) -> np.int64:
        return np.int64(sum(range(10_000)))

    dataset = tf.data.Dataset.range(1 << 40).map(
        lambda n: (tf.numpy_function(count, [n], tf.int64),), num_parallel_calls=8
    )
    for _ in range(5):  # in each, calls are under way when it ends
        measure.draw_batches(dataset.prefetch(64), 0.02)


def test_a_dataset_is_measured():
    found = measure.measure_speed(
        tf.data.Dataset.range(1 << 40).map(lambda n: (n,)), examples=1, seconds=0.05
    )
    assert found.examples_per_s > 0 and found.cpu_us > 0


def numbers(rows: int) -> tf.data.Dataset:
    numbered = tf.data.Dataset.range(1_000).repeat().map(lambda n: (n, tf.strings.as_string(n)))
    return numbered.batch(rows, drop_remainder=True)


ADD = Stage(name="add", apply=lambda positions, text: (positions + 1, text))
DROP = Stage(name="drop", apply=lambda positions, text: (positions,))


def first_of_each(recipe: Recipe) -> dict[str, tuple]:
    return {
        alone.name: (next(iter(alone.dataset))[0], alone.examples, alone.bytes_per_example)
        for alone in per_stage(recipe, patience_s=60.0)
    }


@pytest.mark.parametrize("each", quick_cases([False, True], [True]))
def test_small_groups_are_batched_after_their_stages(each: bool):
    add = dataclasses.replace(ADD, each=each)
    stages = first_of_each(Recipe(read=lambda: numbers(3), rows_read=3, batch=4, stages=(add, DROP)))
    assert list(stages) == ["read", "add", "drop", "batch", "copy"]
    assert [examples for _, examples, _ in stages.values()] == [3, 3, 3, 4, 4]
    np.testing.assert_array_equal(stages["add"][0], [1, 2, 3])
    np.testing.assert_array_equal(stages["batch"][0], [1, 2, 3, 4])
    assert stages["drop"][2] == stages["copy"][2] == 8.0  # bytes of an int64


def test_many_batches_that_are_read_at_once_are_parted_last():
    stages = first_of_each(Recipe(read=lambda: numbers(8), rows_read=8, batch=4, stages=(ADD, DROP)))
    assert list(stages) == ["read", "add", "drop", "batch", "copy"]
    assert [examples for _, examples, _ in stages.values()] == [8, 8, 8, 4, 4]
    np.testing.assert_array_equal(stages["copy"][0], [1, 2, 3, 4])


def test_a_batch_that_is_read_at_once_is_left_whole():
    stages = first_of_each(Recipe(read=lambda: numbers(4), rows_read=4, batch=4, stages=(DROP,)))
    assert list(stages) == ["read", "drop", "copy"]


def test_text_counts_by_its_characters():
    assert size_of((tf.constant(["abc", ""]), {"x": tf.zeros([2, 3])})) == 3 + 24


def test_a_slow_stage_is_shown_two_elements():
    assert len(hold(numbers(1), patience_s=0.0)) == 2


# What is measured cold is read from the disk.
RECORDS, RECORD_BYTES = 64, 32 << 10
IO = pathlib.Path("/proc/self/io")


def read_from_disk() -> int:
    """Bytes that this process has had storage read so far."""
    return int(dict(line.split(": ") for line in IO.read_text().splitlines())["read_bytes"])


@pytest.fixture
def records_path(tmp_path: pathlib.Path) -> str:
    file = str(tmp_path / "data.tfrecord")
    with tf.io.TFRecordWriter(file) as writer:
        for _ in range(RECORDS):
            writer.write(bytes(RECORD_BYTES))
    measure.evict([file])
    if measure.residency([file]).resident or not IO.exists():
        pytest.skip("files in memory cannot be evicted")
    return file


def test_each_pass_reads_the_files_from_the_disk_once(records_path):
    dataset = tf.data.TFRecordDataset(records_path).repeat().map(lambda record: (record,))
    before = read_from_disk()
    speed = measure.measure_uncached(
        dataset,
        Uncached(paths=[records_path], examples=RECORDS),
        examples=1,
        seconds=1e6,
        consume=lambda *element: element,
    )
    read = read_from_disk() - before
    assert speed.examples_per_s > 0
    assert (
        4 * RECORDS * RECORD_BYTES <= read < 6 * RECORDS * RECORD_BYTES
    )  # four passes, and what is read ahead


# Pages of files come and go.
BYTES = 3 << 20


@pytest.fixture
def path(tmp_path: pathlib.Path) -> str:
    kind = subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True, check=True)
    if kind.stdout.strip() in ("tmpfs", "overlayfs"):
        pytest.skip("files in memory cannot be evicted")
    file = tmp_path / "data"
    file.write_bytes(bytes(BYTES))
    return str(file)


def test_what_is_read_stays_until_it_is_evicted(path):
    pathlib.Path(path).read_bytes()
    assert measure.residency([path]) == measure.Residency(bytes=BYTES, resident=1.0)
    measure.evict([path])
    assert measure.residency([path]).resident == 0.0


def test_what_is_mapped_is_evicted_and_read_again(path):
    with pathlib.Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        assert sum(view[:: mmap.PAGESIZE]) == 0
        measure.evict([path])
        assert measure.residency([path]).resident == 0.0
        assert view[BYTES - 1] == 0
        assert measure.residency([path]).resident > 0.0


def test_a_share_is_of_the_bytes_of_all_files(path, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(bytes(3 * BYTES))
    measure.evict([path])
    assert measure.residency([path, str(other)]).resident == 0.75


def test_files_that_are_elsewhere_are_no_error():
    assert measure.residency(["gs://bucket/data-00000"]) is None


def test_where_the_kernel_would_not_say_nothing_is_told(path, monkeypatch):
    monkeypatch.setattr(measure.os, "access", lambda path, mode: False)
    assert measure.residency([path]) == measure.Residency(bytes=BYTES, resident=None)


def test_an_empty_file_has_no_pages(tmp_path):
    (tmp_path / "empty").touch()
    assert measure.residency([str(tmp_path / "empty")]).bytes == 0


def test_work_counts_as_work():
    before = measure.usage_now()
    while measure.usage_now().since(before).cpu_s < 0.02:
        pass
    used = measure.usage_now().since(before)
    assert used.cpu_s <= used.wall_s * host_cores() + 0.1
    assert used.wanted_cores >= used.busy_cores


def test_others_count_on_the_cores_that_this_process_may_use(tmp_path, monkeypatch):
    ticks = os.sysconf("SC_CLK_TCK")

    def host(busy_s: float) -> measure.Usage:
        """All of it on core 7; core 3 is busier, and not ours."""
        lines = [f"cpu{core} {round(s * ticks)} 0 0 500 0 0 0 0 0 0" for core, s in ((3, 60.0), (7, busy_s))]
        (tmp_path / "stat").write_text("\n".join(["cpu  1 2 3 4 5 6 7 8 9 10", *lines, "intr 5"]))
        return dataclasses.replace(measure.usage_now(), wall_s=busy_s, cpu_s=0.0)

    monkeypatch.setattr(measure, "HOST", tmp_path / "stat")
    monkeypatch.setattr(measure.os, "sched_getaffinity", lambda pid: {7})
    before = host(1.0)
    assert host(3.5).since(before).others_cores == 1.0


def test_a_system_that_tells_nothing_is_no_error(tmp_path, monkeypatch):
    for name in ("TASKS", "HOST", "MEMORY"):
        monkeypatch.setattr(measure, name, tmp_path / "absent")
    before = measure.usage_now()
    assert measure.usage_now().since(before).others_s == 0.0
    assert measure.memory_bytes() == 0
