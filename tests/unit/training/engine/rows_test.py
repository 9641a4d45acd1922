"""Updates of tables by rows beside NumPy's, which know all rows; on one replica and on two."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.embedding import OffsetEmbedding
from pipeline.base.errors import InputError
from pipeline.configs import base
from pipeline.training.engine import rows
from pipeline.training.engine import step as step_lib
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.precision import FLOAT32
from pipeline.training.engine.replicas import adapt_to_replicas
from pipeline.training.experiment import optimizer as optimizer_lib
from pipeline.training.experiment.tables import tables_of
from pipeline.training.tasks.classification import Regression
from tests.shared.parsed import parsed

SIZES, WIDTH, RATE = (3, 6), 4, 0.1  # two columns of one table
DRAW = np.random.default_rng(1)
# Ids repeat within a batch, between the halves of a batch, and between steps; some never come.
BATCHES = [DRAW.integers(0, (2, 4), (8, 2)).astype("int32") for _ in range(4)]
LABELS = DRAW.normal(size=8).astype("float32")
START = DRAW.normal(size=(sum(SIZES), WIDTH)).astype("float32")


def model_of_table() -> keras.Model:
    """Predicts the sum of all numbers in an example's rows, squared so that the gradient depends on them."""
    ids = keras.Input((2,), dtype="int32", name="ids")
    table = OffsetEmbedding(SIZES, WIDTH, initializer=keras.initializers.Constant(START), name="embedding")
    squares = keras.ops.square(keras.layers.Flatten()(table(ids)))
    return keras.Model([ids], keras.ops.sum(squares, axis=1, keepdims=True))


def built(model: keras.Model, **settings) -> keras.optimizers.Optimizer:
    config = base.get_config()
    common = {"learning_rate": RATE, "schedule": "constant", "warmup_part": 0.0, "momentum": 0.0}
    config.optimizer.update({**common, "sparse": "always", "weight_decay": 0.0, **settings})
    tables = tables_of(model, is_compiled=False, is_scaled=False)
    return optimizer_lib.build(
        parsed(config).optimizer,
        model.trainable_variables,
        total_steps=4,
        precision=FLOAT32,
        tables=tables,
    )


def trained(
    strategy: str = "one_device",
    *,
    micro_batches: int = 1,
    skips: bool = False,
    labels: np.ndarray = LABELS,
    **settings,
) -> np.ndarray:
    """The table after a step with each of BATCHES."""
    strategy = strategy_lib.create(strategy)
    count = strategy.num_replicas_in_sync
    with strategy.scope():
        model = model_of_table()
        adapt_to_replicas(model, replicas=count)
        optimizer = built(model, **settings)
    step = step_lib.train_step(
        model, optimizer, task=Regression(), global_batch=8, micro_batches=micro_batches, skips=skips
    )

    def part(values: np.ndarray):
        parts = np.split(values, count)
        return strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(parts[context.replica_id_in_sync_group])
        )

    run = tf.function(lambda *args: strategy.run(step, args=args), autograph=False)
    for ids in BATCHES:
        run({"ids": part(ids)}, part(labels))
    return np.asarray(model.trainable_variables[0])


def gradient(table: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gradient of the mean squared error in the whole table, and whether a row is touched; float64."""
    places = ids + np.array([0, SIZES[0]])
    off = (table[places] ** 2).sum(axis=(1, 2)) - LABELS
    g = np.zeros_like(table)
    np.add.at(g, places, 2 * off[:, None, None] * 2 * table[places] / 8)
    return g, np.isin(np.arange(sum(SIZES)), places)[:, None]


def expected(rule, *, clip: float = 0.0, decay: float = 0.0) -> np.ndarray:
    """`rule(g, touched, state, t)` gives what to subtract; it keeps its numbers in `state`."""
    table, state = START.astype("float64"), {}
    for t, ids in enumerate(BATCHES, 1):
        g, touched = gradient(table, ids)
        norm = np.sqrt((g**2).sum())
        if clip and norm > clip:
            g = g * clip / norm
        table = table - touched * RATE * decay * table
        table = table - rule(g, touched, state, t)
    return table


def sgd(g, touched, state, t):
    return RATE * g


def adagrad(g, touched, state, t):
    state["a"] = state.get("a", 0.1) + g**2
    return RATE * g / np.sqrt(state["a"] + 1e-7)


def lazy_adam(g, touched, state, t):
    m, v = state.get("m", np.zeros_like(g)), state.get("v", np.zeros_like(g))
    m = np.where(touched, 0.9 * m + 0.1 * g, m)
    v = np.where(touched, 0.999 * v + 0.001 * g**2, v)
    state.update(m=m, v=v)
    rate = RATE * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    return touched * rate * m / (np.sqrt(v) + 1e-7)


RULES = {"sgd": sgd, "adagrad": adagrad, "adam": lazy_adam, "adamw": lazy_adam}
WAYS = [("one_device", 1), ("one_device", 2), ("mirrored", 1), ("mirrored", 2)]


# Of Adam, 1 − β₂ᵗ in float32 has an error of 3e-5 of its size in the first step.
WITHIN = {"sgd": 2e-6, "adagrad": 2e-6, "adam": 1e-5, "adamw": 1e-5}


@pytest.mark.parametrize("name", RULES)
def test_updates_are_those_of_numpy(name):
    np.testing.assert_allclose(trained(name=name), expected(RULES[name]), rtol=0, atol=WITHIN[name])


@pytest.mark.parametrize("name", ["sgd", "adagrad"])
def test_without_decay_rows_change_as_in_dense_updates(name):
    dense = trained(name=name, sparse="never")
    np.testing.assert_allclose(trained(name=name), dense, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("strategy", "micro_batches"), WAYS[1:])
@pytest.mark.parametrize("skips", [False, True])
def test_parts_and_replicas_change_nothing(strategy, micro_batches, skips):
    """Clipping sees rows of equal ids as one: so the parts of a batch are summed before."""
    found = trained(strategy, micro_batches=micro_batches, skips=skips, name="adagrad", clip_norm=1.0)
    np.testing.assert_allclose(found, expected(adagrad, clip=1.0), rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", ["sgd", "adagrad", "adamw"])
def test_only_touched_rows_decay(name):
    found = trained(name=name, weight_decay=0.3, clip_norm=1.0)
    np.testing.assert_allclose(found, expected(RULES[name], clip=1.0, decay=0.3), rtol=0, atol=WITHIN[name])
    assert np.array_equal(found[[2, 7, 8]], START[[2, 7, 8]])  # of ids that never come


@pytest.mark.parametrize("name", ["sgd", "adamw"])
def test_a_table_has_its_own_rate(name):
    found = trained(name=name, rates=(("embedding/*", 0.5),), weight_decay=0.3)
    other = trained(name=name, learning_rate=RATE / 2, weight_decay=0.3)
    np.testing.assert_allclose(found, other, rtol=0, atol=1e-6)


@pytest.mark.parametrize("strategy", ["one_device", "mirrored"])
def test_a_bad_step_changes_no_row(strategy):
    bad = np.where(np.arange(8) == 5, np.nan, LABELS).astype("float32")
    assert np.array_equal(trained(strategy, name="adagrad", skips=True, labels=bad), START)


def test_what_moves_every_row_is_dense_or_refused():
    model = model_of_table()
    for settings, why in (
        ({"name": "sgd", "momentum": 0.9}, "momentum 0.9 moves every row"),
        ({"name": "adam", "ema": 0.9}, "ema=0.9 averages every row"),
        ({"name": "Lion"}, "Lion has no update by rows"),
        ({"name": "Adagrad(clipvalue=1.0)"}, "clipvalue are for each variable"),
    ):
        with pytest.raises(InputError, match=why):
            built(model, **settings)
        optimizer = built(model, sparse="auto", **settings)
        assert not rows.is_by_rows(optimizer, model.trainable_variables[0])


def test_lines_say_which_tables_are_updated_by_rows(monkeypatch):
    model = model_of_table()
    tables = tables_of(model, is_compiled=False, is_scaled=False)

    def lines(**settings) -> list[str]:
        config = base.get_config()
        config.optimizer.update(settings)
        return tables.lines(parsed(config).optimizer, built(model, **{"sparse": "auto", **settings}))

    assert lines() == []  # a small table is nothing special
    monkeypatch.setattr(rows, "LARGE", 36)
    assert lines(name="adagrad") == [
        "tables     each step updates only the rows of its ids in embedding/table 9 × 4"
    ]
    [line] = lines(name="sgd", momentum=0.9)
    assert line.endswith("updates all rows of embedding/table 9 × 4: the momentum 0.9 moves every row")
    compiled = tables_of(model, is_compiled=True, is_scaled=False)
    assert compiled.by_rows(parsed(base.get_config()).optimizer, built(model)) == []
