"""The causal transformer against NumPy, with documents apart, and token by token."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.transformer import Decoder, transformer

LENGTH, TOKENS = 7, 11
SIZES = {"width": 8, "depth": 2, "heads": 4, "key_value_heads": 2, "expansion": 2}
DRAW = np.random.default_rng(0)
IDS = DRAW.integers(1, TOKENS + 1, (3, LENGTH)).astype("int32")
SEGMENTS = np.array([[2] * 7, [2, 2, 3, 3, 3, 4, 4], [2, 2, 2, 2, 3, 1, 1]], "int32")
ONE_DOCUMENT = np.full_like(IDS, 2)


def model(**sizes: object) -> keras.Model:
    keras.utils.set_random_seed(0)
    sequences = {"tokens": (LENGTH, TOKENS + 1), "segments": (LENGTH, LENGTH + 2)}
    made = transformer(sequences=sequences, outputs=TOKENS, **SIZES | sizes)
    for variable in made.trainable_variables:  # scales of 1 would hide where they stand
        variable.assign(variable + 0.3 * DRAW.normal(size=variable.shape))
    return made


@pytest.fixture(scope="module")
def built() -> keras.Model:
    return model()


def logits(made: keras.Model, ids: np.ndarray, segments: np.ndarray) -> np.ndarray:
    return made({"tokens": tf.constant(ids), "segments": tf.constant(segments)}).numpy()


# --- The same, written for one document in NumPy, pair by pair.


def normed(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-6) * scale


def turned(x: np.ndarray, position: int) -> np.ndarray:
    """One head, [size]: the pair (i, i + size / 2) as a complex number times that of its angle."""
    half = len(x) // 2
    angles = position * 10_000.0 ** (-np.arange(half) / half)
    pairs = (x[:half] + 1j * x[half:]) * np.exp(1j * angles)
    return np.concatenate([pairs.real, pairs.imag])


def block_of_numpy(x: np.ndarray, weights: dict[str, np.ndarray], heads: int, shared: int) -> np.ndarray:
    length, width = x.shape
    y, size = normed(x, weights["attention_norm/scale"]), width // heads
    query, key, value = (y @ weights[f"{name}/kernel"] for name in ("query", "key", "value"))
    attended = np.zeros((length, width))
    for head in range(heads):
        own = slice(head * size, (head + 1) * size)
        kept = head // (heads // shared)
        theirs = slice(kept * size, (kept + 1) * size)
        queries = [
            turned(normed(q, weights["query_norm/scale"]), place) for place, q in enumerate(query[:, own])
        ]
        keys = [turned(normed(k, weights["key_norm/scale"]), place) for place, k in enumerate(key[:, theirs])]
        for place in range(length):
            scores = np.array([queries[place] @ keys[at] for at in range(place + 1)]) / np.sqrt(size)
            shares = np.exp(scores - scores.max())
            attended[place, own] = shares / shares.sum() @ value[: place + 1, theirs]
    x = x + attended @ weights["output/kernel"]
    hidden = np.maximum(0, normed(x, weights["perceptron_norm/scale"]) @ weights["up/kernel"]) ** 2
    return x + hidden @ weights["down/kernel"]


def logits_of_numpy(weights: dict[str, np.ndarray], document: np.ndarray, **sizes: int) -> np.ndarray:
    """[length, tokens], of ids [length]."""
    table = weights["embedding/embeddings"]
    x = table[document]
    for number in range(sizes["depth"]):
        prefix = f"block_{number}/"
        own = {name.removeprefix(prefix): each for name, each in weights.items() if name.startswith(prefix)}
        x = block_of_numpy(x, own, sizes["heads"], sizes["key_value_heads"])
    return normed(x, weights["norm/scale"]) @ table[1:].T


def weights_of(made: keras.Model) -> dict[str, np.ndarray]:
    return {variable.path: np.asarray(variable, np.float64) for variable in made.trainable_variables}


@pytest.mark.parametrize(("heads", "shared"), [(4, 2), (4, 1), (2, 2)])
def test_logits_are_those_of_numpy(heads, shared):
    made = model(heads=heads, key_value_heads=shared)
    expected = logits_of_numpy(
        weights_of(made), IDS[0], **SIZES | {"heads": heads, "key_value_heads": shared}
    )
    np.testing.assert_allclose(logits(made, IDS[:1], ONE_DOCUMENT[:1])[0], expected, rtol=1e-4, atol=1e-4)


def test_documents_that_share_a_row_are_computed_as_if_each_had_its_own(built):
    found = logits(built, IDS, SEGMENTS)
    for row, first, last in ((1, 0, 2), (1, 2, 5), (1, 5, 7), (2, 0, 4)):
        document = np.zeros((1, LENGTH), "int32")
        document[0, : last - first] = IDS[row, first:last]
        alone = logits(built, document, ONE_DOCUMENT[:1])
        np.testing.assert_allclose(found[row, first:last], alone[0, : last - first], rtol=1e-5, atol=1e-5)


def test_what_comes_later_changes_nothing(built):
    changed = IDS.copy()
    changed[:, 4:] = changed[:, 4:] % TOKENS + 1
    before, after = (logits(built, ids, ONE_DOCUMENT) for ids in (IDS, changed))
    np.testing.assert_array_equal(before[:, :4], after[:, :4])
    assert np.abs(before[:, 4:] - after[:, 4:]).min(axis=(1, 2)).all()


def loss_of_numpy(weights: dict[str, np.ndarray]) -> float:
    logs = logits_of_numpy(weights, IDS[0], **SIZES)[:-1]
    own = logs[np.arange(LENGTH - 1), IDS[0, 1:] - 1]
    return float((np.log(np.exp(logs).sum(axis=1)) - own).mean())


def test_the_gradient_is_the_slope_of_numpys_loss(built):
    batch = {"tokens": tf.constant(IDS[:1]), "segments": tf.constant(ONE_DOCUMENT[:1])}
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(IDS[:1, 1:] - 1, built(batch)[:, :-1])
        loss = tf.reduce_mean(losses)
    weights, step = weights_of(built), 1e-5
    assert float(loss) == pytest.approx(loss_of_numpy(weights), rel=1e-5)
    variables = built.trainable_variables
    for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
        gradient = np.asarray(tf.convert_to_tensor(gradient), np.float64)
        way = DRAW.normal(size=gradient.shape)
        ends = [
            loss_of_numpy(weights | {variable.path: weights[variable.path] + sign * step * way})
            for sign in (1, -1)
        ]
        slope = (ends[0] - ends[1]) / (2 * step)
        assert (gradient * way).sum() == pytest.approx(slope, rel=1e-3, abs=1e-4), variable.path


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_token_by_token_the_logits_are_the_same(dtype):
    keras.config.set_dtype_policy(dtype)
    try:
        made = model()
    finally:
        keras.config.set_dtype_policy("float32")
    decoder, whole = Decoder(made), logits(made, IDS, ONE_DOCUMENT)
    read = np.array([1, 3, 2], "int32")  # tokens of each row that are read at once
    found, cache = decoder.start(tf.constant(np.where(np.arange(LENGTH) < read[:, None], IDS, 0)), read - 1)
    rows, tolerance = np.arange(3), 1e-5 if dtype == "float32" else 0.1
    for places in range(LENGTH - read.max() + 1):
        at = read - 1 + places
        assert found.dtype == tf.float32
        np.testing.assert_allclose(found, whole[rows, at], rtol=tolerance, atol=tolerance)
        if at.max() + 1 < LENGTH:
            found, cache = decoder.step(tf.constant(IDS[rows, at + 1]), tf.constant(at + 1), cache)


@pytest.mark.parametrize(
    ("sequences", "sizes", "message"),
    [
        ({"tokens": (7, 12), "words": (7, 5)}, {}, "one sequence of tokens"),
        ({"tokens": (7, 11)}, {}, "and 11 outputs"),
        ({"tokens": (7, 12)}, {"heads": 3, "width": 12}, "received width=12, heads=3, key_value_heads=2"),
        ({"tokens": (7, 12)}, {"width": 12}, "width must be a multiple"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(sequences, sizes, message):
    with pytest.raises(ValueError, match=message):
        transformer(sequences=sequences, outputs=TOKENS, **SIZES | sizes)


def test_another_model_has_no_decoder():
    inputs = keras.Input((3,))
    with pytest.raises(ValueError, match=r"transformer\(\) built"):
        Decoder(keras.Model(inputs, keras.layers.Dense(2)(inputs)))
