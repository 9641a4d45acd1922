"""What the signatures of a model answer."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.dataset.records import MODEL_INPUTS, PREPARED, RAW, SERVING_DEFAULT
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.schema.feature_types import Image, Label
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading
from pipeline.exporting.signatures import signatures
from tests.shared.tiny_dataset import serialize, write_dataset

SIDE = 8
SCHEMA = Schema(
    name="dots",
    features=(Image(name="image", height=SIDE, width=SIDE), Label(name="y", classes=("a", "b"))),
)


@pytest.fixture(scope="module")
def preprocess(tmp_path_factory: pytest.TempPathFactory) -> Preprocess:
    rows = [{"image": encoded(seed), "y": seed % 2} for seed in range(4)]
    dataset = write_dataset(tmp_path_factory.mktemp("dots") / "1.0.0", SCHEMA, {"train": rows})
    return Preprocess(SCHEMA, loading.load(dataset)["train"], image_size=(SIDE, SIDE), image_dtype="float32")


def encoded(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (SIDE, SIDE, 3), np.uint8)
    return tf.io.encode_png(pixels).numpy()


def residual_model() -> keras.Model:
    """A block whose convolutions oneDNN fuses with what follows: of no rows, they had another shape."""
    image = keras.Input((SIDE, SIDE, 3), name="image")
    left, right = (keras.layers.Conv2D(32, 3, padding="same", use_bias=False)(image) for _ in range(2))
    both = keras.layers.Add()([keras.layers.BatchNormalization()(side) for side in (left, right)])
    outputs = keras.layers.Dense(1)(keras.layers.GlobalAveragePooling2D()(keras.layers.ReLU()(both)))
    return keras.Model({"image": image}, outputs)


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.slow
def test_an_image_model_answers_as_many_rows_as_it_is_asked_for(preprocess, rows: int):
    images = [encoded(seed) for seed in range(rows)]
    model = residual_model()
    served = signatures(model, preprocess, SCHEMA)
    logits = model(preprocess({"image": tf.constant([encoded(seed) for seed in range(3)])}))
    positive = tf.sigmoid(logits).numpy()[:rows]
    expected = np.concatenate([1 - positive, positive], axis=1)
    records = [serialize(SCHEMA, {"image": image}) for image in images]
    answers = (
        served[SERVING_DEFAULT](tf.constant(records, tf.string)),
        served[RAW]({"image": tf.constant(images, tf.string)}),
        served[PREPARED](served[MODEL_INPUTS]({"image": tf.constant(images, tf.string)})),
    )
    for answer in answers:
        [probabilities] = answer.values()
        assert probabilities.shape == (rows, 2)
        np.testing.assert_allclose(probabilities, expected, atol=1e-5)
