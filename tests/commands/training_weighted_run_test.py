"""A run whose examples are weighted by a column: what it learns, what its model is fed with, what is told."""

import pathlib

import numpy as np
import pytest
import sklearn.metrics
import tensorflow as tf

from pipeline.data.schema.feature_types import Numeric
from pipeline.data.schema.schema import Schema
from pipeline.exporting.signatures import signatures
from pipeline.report import html, terminal
from pipeline.training.experiment.restore import RestoredRun, restore_model
from pipeline.training.replay import render
from pipeline.training.replay.replay import Replay
from pipeline.training.run import run
from pipeline.training.run.request import Request
from pipeline.training.state import workdir as files
from tests.shared import small_run
from tests.shared.parsed import parsed
from tests.shared.small_run import small_config
from tests.shared.tiny_dataset import write_dataset

pytestmark = pytest.mark.slow

# A record holds a number less its offset, in float32: numbers of a few bits are exact.
WEIGHT = Numeric(name="weight", offset=0.5)
SCHEMA = Schema(name="weighted", features=(WEIGHT, *small_run.SCHEMA.features))


def rows(count: int, *, seed: int, weightless: float, label: int) -> list[dict]:
    """Rows of the small run; a part of them weighs nothing and has this label, the others weigh 1 to 7."""
    draw = np.random.default_rng(100 + seed)
    weights = np.where(draw.random(count) < weightless, 0.0, draw.integers(1, 8, count))
    plain = small_run.rows(count, seed=seed)
    return [
        row | {"weight": weight - WEIGHT.offset, "positive": row["positive"] if weight else label}
        for row, weight in zip(plain, weights.tolist(), strict=True)
    ]


def trained(folder: pathlib.Path, strategy: str, *, label: int) -> RestoredRun:
    splits = {
        "train": rows(200, seed=0, weightless=0.6, label=label),
        "test": rows(70, seed=2, weightless=0.0, label=label),
    }
    config = small_config()
    config.model.dropout = 0.0
    config.optimizer.update({"name": "sgd", "learning_rate": 0.1})
    config.train.update({"example_weights": "weight", "epochs": 3.0, "checkpoints_kept": 100})
    request = Request(
        experiment=parsed(config),
        dataset=write_dataset(folder / "1.0.0", SCHEMA, splits),
        workdir=folder / "run",
        strategy=strategy,
        precision="float32",
    )
    assert run.train(request)["accuracy"] > 0.8
    return restore_model(folder / "run")


@pytest.fixture(scope="module")
def restored(tmp_path_factory) -> RestoredRun:
    return trained(tmp_path_factory.mktemp("weighted"), "one_device", label=1)


@pytest.fixture(scope="module")
def replay(restored) -> Replay:
    return Replay(restored.workdir.path)


def test_rows_without_weight_teach_nothing_on_any_number_of_replicas(tmp_path, restored):
    other = trained(tmp_path, "mirrored", label=0)
    for one, two in zip(restored.model.get_weights(), other.model.get_weights(), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


def test_a_model_is_not_fed_with_the_weight_and_a_request_need_not_have_it(restored):
    assert [feature.name for feature in restored.schema.inputs] == ["x", "y", "kind"]
    assert dict(restored.schema.ignore) == {"weight": "weighs examples in training"}
    assert restored.preprocess.inputs.numeric == 2
    raw = signatures(restored.model, restored.preprocess, restored.schema)["raw"]
    answer = raw({"x": tf.constant([1.0]), "y": tf.constant([2.0]), "kind": tf.constant(["a"])})
    assert answer["probabilities"][0, 1] > 0.9


def test_the_evaluation_is_there_without_and_with_weights(restored):
    found = files.read_json(restored.workdir.evaluation)
    test = rows(70, seed=2, weightless=0.0, label=1)
    labels = [row["positive"] for row in test]
    features = {name: tf.constant([row[name] for row in test]) for name in ("x", "y", "kind")}
    scores = tf.nn.sigmoid(restored.model(restored.preprocess(features), training=False))[:, 0].numpy()
    weights = [row["weight"] + WEIGHT.offset for row in test]
    for prefix, sample_weight in (("", None), ("weighted_", weights)):
        by = {"sample_weight": sample_weight}
        auc = sklearn.metrics.roc_auc_score(labels, scores, **by)
        assert found[f"{prefix}auc"] == pytest.approx(auc, abs=1e-6)
        assert found[f"{prefix}accuracy"] == pytest.approx(
            sklearn.metrics.accuracy_score(labels, scores > 0.5, **by)
        )
        loss = sklearn.metrics.log_loss(labels, scores, **by)
        assert found[f"{prefix}loss"] == pytest.approx(loss, rel=1e-4)
    assert found["auc"] != found["weighted_auc"]


def test_the_replay_tells_each_weight_and_sorts_by_what_it_did_to_the_step(replay):
    step = replay.step(3, examples=16)
    labels, weights = replay.stream.batch(3)[1]
    assert len(labels) == len(weights) == 16
    mean = np.mean([row["weight"] + WEIGHT.offset for row in rows(200, seed=0, weightless=0.6, label=1)])
    for example in step.examples:
        assert example.weight == weights[example.index] == example.features["weight"] + WEIGHT.offset
        of_label = np.log(example.prediction[int(example.features["positive"])])
        assert example.loss == pytest.approx(-of_label * example.weight / mean, abs=1e-5)
    losses = [example.loss for example in step.examples]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] == 0.0 < losses[0]


def test_what_is_shown_of_a_step_says_that_it_is_weighted(replay):
    step, schema = replay.step(3, examples=2), replay.stream.schema
    head, *sections = render.step_sections(step, schema, run="run", total_steps=9)
    lines = [
        line.split(maxsplit=1) for line in terminal.render([head, *sections]).splitlines() if line.strip()
    ]
    assert float(next(line[1] for line in lines if line[0] == "weight")) == step.examples[0].weight
    (weighted,) = (line[1] for line in lines if line[0] == "weighted")
    assert weighted.startswith("each loss is multiplied by the example's weight, rel")
    assert "<dt>weight</dt>" in html.page(head, sections)
    told = render.step_json(step, schema)
    assert told["weighted_by"] == "weight"
    assert [each["weight"] for each in told["examples"]] == [each.weight for each in step.examples]
