"""Retrieval: losses within a batch, ranks over all items in blocks, equal scores, and what is served."""

import dataclasses
import itertools

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from models.items import Items
from models.items import split as split_model
from models.two_tower import two_tower
from pipeline.base.errors import InputError
from pipeline.data.dataset.statistics import FeatureStatistics, SplitStatistics, ValueCounts
from pipeline.data.schema.feature_types import Label
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.step import inner_loop, train_step
from pipeline.training.tasks import item_blocks
from pipeline.training.tasks.item_blocks import Dense
from pipeline.training.tasks.objective import Objective
from pipeline.training.tasks.registry import EvaluationMetrics
from pipeline.training.tasks.retrieval import Retrieval

NAMES = ("a, b", "é", "c", "ç d", "e")
LABEL = Label(name="item", task="retrieval", classes=NAMES)
COUNTS = (50, 5, 30, 14, 1)
CHOSEN = np.array([0, 2, 0, 1, 3, 0, 2, 0], "int32")


def statistics(counts: tuple[int, ...] = COUNTS, *, complete: bool = True) -> SplitStatistics:
    values = tuple(zip(NAMES, counts, strict=True)) if complete else ()
    found = FeatureStatistics(
        name="item",
        dtype="int64",
        present=sum(counts),
        missing=0,
        values=ValueCounts(distinct=len(counts), values=values, complete=complete),
    )
    return SplitStatistics(examples=sum(counts), features={"item": found})


def model_of(*, items: int = len(NAMES), **options) -> keras.Model:
    keras.utils.set_random_seed(0)
    options = {"hidden": (), "size": 4, "negatives": "batch", **options}
    return two_tower(numeric=3, cardinalities=(), sequences={}, outputs=items, **options)


def queries(rows: int = len(CHOSEN)) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(rows, 3)).astype("float32")


def draw_scores(rows: int, items: int) -> np.ndarray:
    """Scores of few different values, so that many are equal."""
    return np.random.default_rng(0).integers(0, 7, (rows, items)).astype("float32")


# --- All items, block by block.


@pytest.mark.parametrize(("items", "block"), [(23, 5), (23, 23), (23, 100), (20, 5), (1, 4)])
def test_the_best_items_are_those_of_all_scores_the_lower_index_first(items, block):
    scores = draw_scores(9, items)
    found, at = item_blocks.best(tf.constant(scores), Dense(items), 6, block=block)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :6]
    np.testing.assert_array_equal(at, expected)
    np.testing.assert_array_equal(found, np.take_along_axis(scores, expected, axis=1))


@pytest.mark.parametrize(("items", "block"), [(23, 5), (23, 23), (20, 5), (1, 4)])
def test_ranks_are_those_of_all_scores(items, block):
    rows = max(items, 9)  # each item is chosen, also those that two blocks have
    scores, chosen = draw_scores(rows, items), np.arange(rows, dtype="int32") % items
    found = item_blocks.ranks(tf.constant(scores), Dense(items), tf.constant(chosen), block=block).numpy()
    own = scores[np.arange(rows), chosen][:, None]
    logs = scipy.special.log_softmax(scores.astype("float64"), axis=1)[np.arange(rows), chosen]
    np.testing.assert_allclose(found[:, 0], logs, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found[:, 1], (scores > own).sum(axis=1))
    np.testing.assert_array_equal(found[:, 2], (scores == own).sum(axis=1) - 1)


def test_items_with_equal_vectors_are_equal_in_every_block():
    items = Items(50, 8)
    items.build(())
    items.table.assign(np.tile(np.random.default_rng(0).normal(size=(1, 8)), (50, 1)))
    found = item_blocks.ranks(
        tf.random.stateless_normal([16, 8], seed=(0, 0)), items, tf.range(16), block=16
    ).numpy()
    np.testing.assert_array_equal(found[:, 1:], [[0, 49]] * 16)
    np.testing.assert_allclose(found[:, 0], -np.log(50), rtol=1e-5)


def test_scores_that_are_no_numbers_are_the_worst_answer():
    scores = np.array([[np.nan, 1, 2], [1, np.nan, 2], [np.nan] * 3], "float32")
    found = item_blocks.ranks(tf.constant(scores), Dense(3), tf.constant([0, 2, 1])).numpy()
    np.testing.assert_array_equal(found[:, 1], [2, 1, 2])


def test_scores_far_from_0_have_a_finite_loss():
    scores = np.array([[1000.0, -1000, 0], [-3e4, -3e4, -3e4]], "float32")
    found = item_blocks.ranks(tf.constant(scores), Dense(3), tf.constant([0, 1]), block=1).numpy()
    np.testing.assert_allclose(found[:, 0], [0.0, -np.log(3)], atol=1e-2)


def test_a_metric_is_the_mean_over_all_orders_of_equal_scores():
    label = Label(name="item", task="retrieval", classes=tuple(map(str, range(12))))
    better, equal = 8, 3
    orders = [order.index(0) + better + 1 for order in itertools.permutations(range(equal + 1))]
    metrics = EvaluationMetrics(label)
    metrics.update(np.array([4]), np.array([[-2.0, better, equal]]))
    assert metrics.result() == {
        "task": "retrieval",
        "examples": 1,
        "loss": 2.0,
        "recall_at_10": pytest.approx(np.mean([rank <= 10 for rank in orders])),
        "recall_at_1": 0.0,
        "mrr": pytest.approx(np.mean([1 / rank for rank in orders])),
        "ndcg_at_10": pytest.approx(np.mean([1 / np.log2(rank + 1) if rank <= 10 else 0 for rank in orders])),
    }


def test_a_recall_of_all_items_is_no_metric():
    assert [metric.key for metric in Retrieval().metrics_of(LABEL)][:2] == ["recall_at_1", "mrr"]


# --- Losses of training.


def losses(*, log_q: bool = True, chosen: np.ndarray = CHOSEN) -> tuple[np.ndarray, np.ndarray]:
    """The losses within a batch, and the scores of all items, [batch, items]."""
    model, x = model_of(log_q=log_q), queries(len(chosen))
    part, task = Retrieval().measured(LABEL, statistics()).split(model)
    return task.losses(tf.constant(chosen), part(x)).numpy(), model(x).numpy().astype("float64")


def test_a_loss_is_over_the_other_items_of_the_batch():
    found, scores = losses()
    shares = np.array(COUNTS) / (sum(COUNTS) + 1)
    corrected = scores - np.log(1 - (1 - shares) ** (len(CHOSEN) - 1))
    for row, own in enumerate(CHOSEN):
        others = corrected[row, sorted({*CHOSEN} - {own})]  # one that comes twice counts once
        expected = scipy.special.logsumexp([corrected[row, own], *others]) - corrected[row, own]
        assert found[row] == pytest.approx(expected, rel=1e-5)


def test_without_the_correction_each_row_counts():
    found, scores = losses(log_q=False)
    for row, own in enumerate(CHOSEN):
        others = [scores[row, each] for each in CHOSEN if each != own]
        expected = scipy.special.logsumexp([scores[row, own], *others]) - scores[row, own]
        assert found[row] == pytest.approx(expected, rel=1e-5)


def test_losses_of_rare_items_are_those_of_keras_rs():
    """Its RemoveAccidentalHits (0.4) adds 1e-40, and so removes none: no item comes twice here."""
    keras_rs = pytest.importorskip("keras_rs")
    different, rare = np.array([4, 0, 3, 1, 2], "int32"), (5, 1, 3, 2, 4)
    model, x = model_of(), queries(5)
    measured = dataclasses.replace(Retrieval(), shares=np.array(rare) / 1e6)
    part, task = measured.split(model)
    found = task.losses(tf.constant(different), part(x)).numpy()
    own = np.eye(5, dtype="float32")
    logits = model(x).numpy()[:, different]
    shares = np.broadcast_to((np.array(rare) / 1e6)[different].astype("float32"), logits.shape)
    logits = keras_rs.layers.SamplingProbabilityCorrection()(logits, shares)
    expected = keras.losses.categorical_crossentropy(own, logits, from_logits=True)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_recalls_are_those_of_keras_rs():
    keras_rs = pytest.importorskip("keras_rs")
    items, chosen = 60, np.arange(40, dtype="int32")
    scores = np.random.default_rng(0).normal(size=(40, items)).astype("float32")
    label = Label(name="item", task="retrieval", classes=tuple(map(str, range(items))))
    metrics = EvaluationMetrics(label)
    metrics.update(chosen, item_blocks.ranks(tf.constant(scores), Dense(items), tf.constant(chosen)).numpy())
    for key, metric in (
        ("recall_at_10", keras_rs.metrics.RecallAtK(k=10)),
        ("ndcg_at_10", keras_rs.metrics.NDCG(k=10)),
        ("mrr", keras_rs.metrics.MeanReciprocalRank()),
    ):
        metric.update_state(np.eye(items, dtype="float32")[chosen], scores)
        assert metrics.result()[key] == pytest.approx(float(metric.result()), rel=1e-5)


def test_a_softmax_over_all_items_is_the_model_s_own():
    model, x = model_of(negatives="all"), queries()
    part, task = Retrieval().split(model)
    expected = keras.losses.sparse_categorical_crossentropy(CHOSEN, model(x), from_logits=True)
    np.testing.assert_allclose(task.losses(tf.constant(CHOSEN), part(x)), expected, rtol=1e-5)


@pytest.mark.slow
def test_the_items_of_batches_lead_to_the_softmax_over_all_items():
    rng = np.random.default_rng(0)
    shares = np.array(COUNTS) / sum(COUNTS)
    logits = np.log(shares)[None] + rng.normal(size=(4, len(NAMES)))  # of four queries
    p = scipy.special.softmax(logits, axis=1)
    x = np.eye(4, dtype="float32")
    model = two_tower(
        numeric=4, cardinalities=(), sequences={}, outputs=len(NAMES), hidden=(), size=4, negatives="batch"
    )
    part, task = Retrieval().measured(LABEL, statistics()).split(model)
    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.05, 600))

    @tf.function
    def step(rows: tf.Tensor, chosen: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(task.losses(chosen, part(tf.gather(x, rows))))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

    for _ in range(600):
        rows = rng.integers(0, 4, 256)
        chosen = (p[rows].cumsum(axis=1) < rng.random((256, 1))).sum(axis=1)
        step(tf.constant(rows, tf.int32), tf.constant(np.minimum(chosen, len(NAMES) - 1), tf.int32))
    found = scipy.special.softmax(model(x).numpy(), axis=1)
    assert np.abs(found - p).sum(axis=1).max() < 0.1  # with q in place of Q: 0.8


def test_items_that_were_not_counted_are_refused():
    uncounted = Retrieval().measured(LABEL, statistics(complete=False))
    for log_q in (True, False):
        part, task = uncounted.split(model_of(log_q=log_q))
        if not log_q:
            assert np.isfinite(task.losses(tf.constant(CHOSEN), part(queries()))).all()
            continue
        with pytest.raises(InputError, match=r"model\.log_q: received True, and items that .* do not count"):
            task.losses(tf.constant(CHOSEN), part(queries()))


def test_a_batch_of_one_is_refused():
    with pytest.raises(InputError, match=r"global_batch: received 1 example .* expected 2 or more"):
        losses(chosen=CHOSEN[:1])


def stepped(name: str, *, batch: int = len(CHOSEN)) -> list[np.ndarray]:
    """Weights after three steps, with batches of two different orders."""
    strategy = strategy_lib.create(name)
    with strategy.scope():
        model = model_of()
        optimizer = keras.optimizers.SGD(0.5)
        optimizer.build(model.trainable_variables)
    task = Objective(task=Retrieval().measured(LABEL, statistics()))
    step = train_step(model, optimizer, task=task, global_batch=batch)
    data = tf.data.Dataset.from_tensors(({"numeric": queries()}, CHOSEN)).repeat().rebatch(batch, True)
    iterator = iter(strategy.experimental_distribute_dataset(data))
    inner_loop(strategy, step, iterator)(3)
    return [np.asarray(each) for each in model.trainable_variables]


def test_two_replicas_take_the_step_that_one_takes():
    for alone, together in zip(stepped("one_device"), stepped("mirrored"), strict=True):
        np.testing.assert_allclose(together, alone, atol=1e-6)


# --- What is served.


def test_names_and_scores_of_the_best_items():
    model, x = model_of(k=3), queries()
    part, task = Retrieval().split(model)
    found = {name: each.numpy() for name, each in task.served(LABEL, {}, part(x)).items()}
    scores = model(x).numpy()
    best = np.argsort(-scores, axis=1)[:, :3]
    np.testing.assert_allclose(found["scores"], np.take_along_axis(scores, best, axis=1), rtol=1e-5)
    assert found["items"].tolist() == [[NAMES[at].encode() for at in row] for row in best]
    assert {name: (each.dtype, each.shape[1]) for name, each in task.served_specs(LABEL).items()} == {
        "scores": (tf.float32, 3),
        "items": (tf.string, 3),
    }


def test_no_more_than_all_items_are_served():
    part, task = Retrieval().split(model_of(k=99))
    assert task.served(LABEL, {}, part(queries()))["items"].shape == [len(CHOSEN), len(NAMES)]


def test_no_rows_are_no_answers():
    part, task = Retrieval().split(model_of())
    assert task.served(LABEL, {}, part(queries())[:0])["items"].shape == [0, len(NAMES)]


def test_a_model_of_scores_is_a_model_of_retrieval_too():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(len(NAMES))])
    part, items = split_model(model)
    assert (part, items) == (model, None)
    _, task = Retrieval().split(model)
    assert task.served(LABEL, {}, part(queries()))["items"].shape == [len(CHOSEN), len(NAMES)]


def test_cosines_do_not_depend_on_lengths():
    model, x = model_of(temperature=0.1), queries()
    part, items = split_model(model)
    before = model(x).numpy()
    items.table.assign(7.0 * items.table)
    np.testing.assert_allclose(model(x), before, rtol=1e-4)
    np.testing.assert_allclose(items(5.0 * part(x)), before, rtol=1e-4)
    assert np.abs(before).max() <= 10.0 + 1e-4


@pytest.mark.parametrize("option", [{"k": 0}, {"temperature": -1.0}, {"negatives": "some"}, {"size": 0}])
def test_an_option_out_of_its_range_is_refused(option):
    with pytest.raises(ValueError, match=next(iter(option))):
        model_of(**option)
