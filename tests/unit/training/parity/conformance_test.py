"""A sound model keeps every promise; one that breaks a promise is named with its variable."""

import keras
import pytest
import tensorflow as tf

from models.registry import MODELS
from pipeline.data.schema.feature_types import TokenLabel
from pipeline.report.comparison import Comparison
from pipeline.training.parity import conformance, subject, updates
from tests.shared.parsed import parsed
from tests.shared.small_run import small_config, write_small_dataset


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory):
    return write_small_dataset(tmp_path_factory.mktemp("tiny") / "1.0.0")


@pytest.fixture
def tried(dataset, monkeypatch):
    """Function of what makes logits of two numbers → its subject."""

    def of(logits_of) -> subject.Subject:
        def tested(*, numeric: int, outputs: int) -> keras.Model:
            numbers = keras.Input((numeric,), name="numeric")
            return keras.Model([numbers], logits_of(numbers, outputs))

        monkeypatch.setitem(MODELS, "tested", tested)
        config = small_config()
        config.model = {"name": "tested"}
        return subject.of_experiment(parsed(config), dataset)

    return of


def dense(outputs: int, **more) -> keras.layers.Layer:
    return keras.layers.Dense(outputs, dtype="float32", **more)


def test_a_sound_model_keeps_all_promises(dataset):
    begun: list[str] = []
    tested = subject.of_experiment(parsed(small_config()), dataset)
    found = list(conformance.compare(tested, begins=begun.append))
    names = ["first loss", "gradients", "batch of one", "restored", "export", "tracing"]
    assert [each.name for each in found] == begun == names
    assert all(each.differences and not each.found for each in found)


@pytest.mark.slow
def test_large_first_logits_are_found(tried):
    made = tried(lambda x, outputs: dense(outputs, kernel_initializer=keras.initializers.Constant(-90.0))(x))
    (batch,) = made.batches(1)
    assert [each.name for each in conformance.first_loss(made, batch).found] == ["mean loss"]


@pytest.mark.slow
def test_a_weight_that_nothing_trains_is_named(tried):
    def cut_off(x: keras.KerasTensor, outputs: int) -> keras.KerasTensor:
        idle = keras.ops.stop_gradient(keras.layers.Dense(2, name="idle")(x))
        return dense(outputs, name="last")(keras.ops.concatenate([x, idle], axis=-1))

    made = tried(cut_off)
    (batch,) = made.batches(1)
    found = conformance.gradients(made, batch).found
    assert sorted(each.name for each in found) == ["idle/bias", "idle/kernel"]


class MinusMean(keras.layers.Layer):
    def call(self, x):
        return x - keras.ops.mean(x, axis=0, keepdims=True)


@pytest.mark.slow
def test_a_layer_that_looks_at_its_batch_is_found(tried):
    made = tried(lambda x, outputs: dense(outputs)(MinusMean()(x)))
    ((inputs, _),) = made.batches(1)
    assert conformance.batch_of_one(made.model(), inputs).found


def test_a_language_model_that_looks_ahead_is_found():
    label = TokenLabel(name="tokens", parts=("tokens",), length=16, vocabulary_size=20)
    ids = keras.Input((16,), dtype="int32", name="tokens")
    x = keras.layers.Embedding(21, 8)(ids)

    def compared(layer: keras.layers.Layer) -> Comparison:
        made = keras.Model([ids], keras.layers.Dense(20)(layer(x)))
        return conformance.seen_tokens(made, label)

    sound = compared(keras.layers.GRU(8, return_sequences=True))
    assert [each.name for each in sound.differences] == ["later tokens"]
    assert not sound.found
    ahead = compared(keras.layers.Bidirectional(keras.layers.GRU(8, return_sequences=True)))
    assert [each.name for each in ahead.found] == ["later tokens"]
    short = TokenLabel(name="tokens", parts=("tokens",), length=5, vocabulary_size=20)
    assert conformance.seen_tokens(keras.Model(ids, x), short).skipped


class Counting(keras.layers.Layer):
    calls = 0

    def call(self, x):
        Counting.calls += 1
        return x * 1.0 if Counting.calls % 2 else tf.identity(x) + 1.0


@pytest.mark.slow
def test_a_layer_that_changes_with_each_trace_is_found(tried):
    made = tried(lambda x, outputs: dense(outputs)(Counting()(x)))
    ((inputs, _),) = made.batches(1)
    model = made.model()
    assert conformance.traced_again(model, inputs).found or conformance.restored(model, model, inputs).found


class Divided(keras.layers.Layer):
    """Its `rate` is no share of what is dropped."""

    rate = 2.0

    def call(self, x):
        return x / self.rate


@pytest.mark.slow
def test_only_dropout_is_turned_off(tried):
    made = tried(lambda x, outputs: dense(outputs)(Divided(name="divided")(keras.layers.Dropout(0.5)(x))))
    layers = made.model()._flatten_layers()
    assert [each.rate for each in layers if hasattr(each, "rate")] == [0.0, 2.0]


@pytest.mark.slow
def test_updates_of_a_model_that_draws_are_not_compared_and_it_is_said(tried):
    made = tried(lambda x, outputs: dense(outputs)(keras.layers.GaussianNoise(0.5)(x)))
    one = tf.distribute.get_strategy()
    found = list(updates.compare(made, one, one))
    assert all("gives other logits each time: it draws" in each.skipped for each in found)
