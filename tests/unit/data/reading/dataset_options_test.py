"""How TensorFlow runs the pipelines: nothing of them is tuned, and cores are the only limit."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.dataset.selection import select
from pipeline.data.input.batches import evaluation_batches, training_batches
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading import fetch, windows
from pipeline.data.reading.fetch import dataset_options
from pipeline.data.reading.plan import plan_reading
from pipeline.data.reading.sharding import Share
from pipeline.data.statistics import loading
from tests.shared.small_run import write_small_dataset

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
