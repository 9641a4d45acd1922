"""Offsets, reads in flight because of their latency, and how TensorFlow runs the pipelines."""

import itertools
import threading

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.dataset import shards as shards_lib
from pipeline.data.dataset.selection import select
from pipeline.data.input.batches import evaluation_batches, training_batches
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading import fetch, windows
from pipeline.data.reading.fetch import dataset_options
from pipeline.data.reading.plan import plan_reading
from pipeline.data.reading.sharding import Share
from pipeline.data.statistics import loading
from tests.shared.small_run import write_small_dataset
from tests.unit.data.reading.id_stream import write

SHARD = [0, 1, 1, 0, 1]
ORDINAL = [0, 3, 4, 7, 8]


@pytest.fixture(scope="module")
def lookups(tmp_path_factory: pytest.TempPathFactory) -> tuple[fetch.Offsets, fetch.Offsets]:
    """From memory, and from the indexes."""
    dataset = write(tmp_path_factory.mktemp("ids") / "1.0.0", range(20), shards=2)
    held = fetch.offsets_of(select(dataset, "train").shards)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards_lib, "HELD_RECORDS", 1)
        shards = select(dataset, "train").shards
    assert shards.offsets is None
    return held, fetch.offsets_of(shards)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
@pytest.mark.parametrize("is_known", [True, False])  # the number, when it is traced
def test_any_number_is_looked_up(lookups, count: int, is_known: bool):
    if is_known and not count:
        pytest.skip("nobody asks for none that knows so")
    some = tf.TensorSpec([count if is_known else None], tf.int64)
    asked = np.array(SHARD[:count], np.int64), np.array(ORDINAL[:count], np.int64)
    held, found = (tf.function(each, input_signature=[some, some])(*asked) for each in lookups)
    assert found.shape == (count, 2)
    np.testing.assert_array_equal(found, held)


def latency(took: list[float]) -> float:
    """As found where reads take so long, the last of them again and again."""
    waits, now = itertools.chain(took, itertools.repeat(took[-1])), [0.0]

    def read(path: str, offset: int) -> None:
        now[0] += next(waits)

    return fetch.latency(["a", "b"], [1 << 20, 10], read=read, clock=lambda: now[0])


def test_the_latency_is_the_mean_of_reads_of_all_files():
    seen = []
    fetch.latency(["a", "b"], [1 << 20, 10], read=lambda *place: seen.append(place), clock=lambda: 0.0)
    assert {path for path, _ in seen} == {"a", "b"}
    assert len({offset for path, offset in seen if path == "a"}) == 8
    assert all(offset == 0 for path, offset in seen if path == "b")  # it is as small as one read
    assert latency([0.01]) == pytest.approx(0.01)
    assert latency([0.01] * 8 + [0.0]) == pytest.approx(0.06 / 14)


def test_two_reads_that_something_else_disturbed_do_not_count():
    assert latency([0.4, 0.05, 1e-5]) == pytest.approx(1e-5)


def test_measuring_ends_soon_where_reads_take_long():
    seen = []
    now = itertools.count(step=1)
    found = fetch.latency(["a"], [10], read=lambda *place: seen.append(place), clock=lambda: next(now))
    assert (found, len(seen)) == (1, 1)


def test_a_read_that_fails_took_its_time_all_the_same():
    now = [0.0]

    def read(path: str, offset: int) -> None:
        now[0] += 0.01
        raise OSError(5, "Input/output error")

    found = fetch.latency(["a"], [10], read=read, clock=lambda: now[0])
    assert found == pytest.approx(0.01)


@pytest.mark.parametrize(("ms", "reads"), [(0.01, 1), (0.2, 1), (1, 40), (10, 400), (1000, 512)])
def test_more_reads_are_in_flight_the_longer_one_takes(ms: float, reads: int):
    found = fetch.reads_for_latency(ms / 1e3)
    assert (found.reads, found.is_slow) == (reads, reads > 1)


def test_records_in_flight_fit_into_memory():
    found = fetch.reads_for_latency(0.01)
    assert found.records(30e3) == 400
    assert found.records(4 << 20) == 64
    assert found.records(1 << 30) == 1


# How TensorFlow runs the pipelines: nothing of them is tuned, and cores are the only limit.
SHARE = Share(global_batch=8)


def test_here_a_map_runs_as_many_calls_at_once_as_this_process_has_cores(monkeypatch):
    monkeypatch.setattr(fetch, "host_cores", lambda: 2.5)
    assert dataset_options().autotune.initial_parallelism == 3


def test_where_it_is_served_a_map_runs_as_many_calls_at_once_as_there_are_threads():
    threads = 20  # more than the 16 at which TensorFlow stops by default
    together = threading.Barrier(threads)

    def wait(number: np.ndarray) -> np.ndarray:
        together.wait(timeout=60)  # raises where the others do not come
        return number

    def waiting(number: tf.Tensor) -> tf.Tensor:
        return tf.numpy_function(wait, [number], tf.int64)

    options = dataset_options(is_served=True)
    options.threading.private_threadpool_size = threads
    numbers = tf.data.Dataset.range(threads).map(waiting, num_parallel_calls=tf.data.AUTOTUNE)
    assert list(numbers.with_options(options).as_numpy_iterator()) == list(range(threads))


@pytest.mark.parametrize("what", ["training", "evaluation", "stored rows"])
def test_no_pipeline_is_tuned(tmp_path, what: str):
    selection = select(write_small_dataset(tmp_path / "small"), "train")
    preprocess = Preprocess(selection.dataset.schema, loading.load(selection.dataset)["train"])
    made = {
        "training": lambda: training_batches(plan_reading(selection, share=SHARE, seed=1), preprocess),
        "evaluation": lambda: evaluation_batches(selection, preprocess, share=SHARE),
        "stored rows": lambda: windows.stored_rows(selection),
    }[what]()
    assert made.options().autotune.enabled is False
    assert made.options().deterministic is True
