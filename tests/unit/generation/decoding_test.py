"""Text that is continued from a cache is that of whole rows, at the same work for each token."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from models.transformer import transformer
from pipeline.base.errors import InputError
from pipeline.data.preprocessing.tokenizers import ByteTokenizer
from pipeline.data.schema.feature_types import TokenLabel
from pipeline.data.schema.schema import Schema
from pipeline.generation import texts
from pipeline.generation.decoding import Cached, Recomputed, continue_prompts, decoding_of
from pipeline.generation.opening import LanguageModel, tokenizer_of
from pipeline.generation.sampling import Sampling
from pipeline.training.engine.measures import flops_of

LENGTH = 8
LABEL = TokenLabel(
    name="tokens", parts=("tokens", "segments"), length=LENGTH, vocabulary_size=259, tokenizer="bytes"
)
PROMPTS = [[70], [80, 81, 82, 83, 84], list(range(100, 120))]
GREEDY = Sampling(temperature=0.0)


@pytest.fixture(scope="module")
def model() -> keras.Model:
    keras.utils.set_random_seed(0)
    sequences = {"tokens": (LENGTH, 260), "segments": (LENGTH, LENGTH + 2)}
    made = transformer(sequences=sequences, outputs=259, width=16, depth=2, heads=2, key_value_heads=1)
    draw = np.random.default_rng(1)
    for variable in made.trainable_variables:
        variable.assign(variable + 0.2 * draw.normal(size=variable.shape))
    return made


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(top_k=20, seed=3)])
def test_with_and_without_a_cache_the_tokens_are_the_same(model, sampling):
    cached, whole = (
        continue_prompts(decoding, PROMPTS, length=LENGTH, most=30, sampling=sampling)
        for decoding in (Cached(model), Recomputed(model, LABEL))
    )
    assert [text.tokens for text in cached] == [text.tokens for text in whole]
    assert [text.ended for text in cached] == ["length"] * 3
    assert len({tuple(text.tokens) for text in cached}) == 3


def test_a_text_is_the_same_alone_and_beside_others(model):
    together = continue_prompts(Cached(model), PROMPTS, length=LENGTH, most=12, sampling=GREEDY)
    decoding = Cached(model)
    for prompt, text in zip(PROMPTS, together, strict=True):
        [alone] = continue_prompts(decoding, [prompt], length=LENGTH, most=12, sampling=GREEDY)
        assert alone.tokens == text.tokens


class Counted(Cached):
    """Adds up the floating-point operations of the graphs that run."""

    def __init__(self, model: keras.Model) -> None:
        super().__init__(model)
        self.flops = 0
        self.of_graph: dict[str, int] = {}

    def start(self, tokens: np.ndarray, last: np.ndarray) -> np.ndarray:
        self._count("start", self.start_graph, tokens, last)
        return super().start(tokens, last)

    def step(self, tokens: np.ndarray, places: np.ndarray) -> np.ndarray:
        self._count("step", self.step_graph, tokens, places, self._cache)
        return super().step(tokens, places)

    def _count(self, name: str, function: tf.types.experimental.PolymorphicFunction, *given: object) -> None:
        if name not in self.of_graph:
            tensors = tf.nest.map_structure(tf.convert_to_tensor, given)
            self.of_graph[name] = flops_of(function.get_concrete_function(*tensors).graph)
        self.flops += self.of_graph[name]


def test_a_token_costs_the_same_in_a_long_text(model):
    counted = Counted(model)
    flops = {}
    for most in (100, 1_000):
        before = counted.flops
        continue_prompts(counted, [[70]], length=LENGTH, most=most, sampling=GREEDY)
        flops[most] = (counted.flops - before) / most
    assert flops[1_000] == pytest.approx(flops[100], rel=0.05)
    # A step, and a row of eight for each four tokens.
    once = counted.of_graph["step"] + counted.of_graph["start"] / (LENGTH // 2)
    assert flops[1_000] <= once
    assert counted.of_graph["step"] < counted.of_graph["start"] / 4


def test_any_other_model_computes_whole_rows(model):
    inputs = [keras.Input((LENGTH,), dtype="int32", name=name) for name in LABEL.parts]
    other = keras.Model(inputs, model(dict(zip(LABEL.parts, inputs, strict=True))))
    assert isinstance(decoding_of(model, LABEL), Cached)
    assert isinstance(decoding_of(other, LABEL), Recomputed)


class Fixed:
    """Says what it is told to: `text`, byte by byte, after any prompt."""

    def __init__(self, text: str) -> None:
        self._tokens = iter(ByteTokenizer().encode([text])[0].tolist() + [ByteTokenizer().end] * 9)

    def start(self, tokens: np.ndarray, last: np.ndarray) -> np.ndarray:
        return np.eye(259)[[next(self._tokens)]]

    def step(self, tokens: np.ndarray, places: np.ndarray) -> np.ndarray:
        return np.eye(259)[[next(self._tokens)]]


@pytest.mark.parametrize(
    ("stops", "text", "tokens", "ended"),
    [
        ((), "für\n\nNO", 9, "end"),
        (("\n\n",), "für", 6, "stop"),
        (("NO", "r\n"), "fü", 5, "stop"),
        (("nothing",), "für\n\nNO", 9, "end"),
    ],
)
def test_a_text_ends_at_a_stop_text_or_with_its_document(model, monkeypatch, stops, text, tokens, ended):
    opened = LanguageModel(model=model, label=LABEL, tokenizer=ByteTokenizer(), described="")
    monkeypatch.setattr(texts, "decoding_of", lambda model, label: Fixed("für\n\nNO"))
    [found] = texts.continue_texts(opened, ["Ab"], most=20, sampling=GREEDY, stops=stops)
    assert (found.text, found.tokens, found.ended) == (text, tokens, ended)


@pytest.mark.parametrize(
    ("tokenizer", "action"),
    [
        ("tokenizer.json", "Give the file that convert was given."),
        ("", "Give the file that convert was given, or bytes."),  # of an old schema
    ],
)
def test_bytes_are_not_offered_where_they_would_be_refused(tokenizer: str, action: str):
    with pytest.raises(InputError) as refused:
        tokenizer_of(
            "", Schema(name="texts", features=(LABEL,)), dataclasses.replace(LABEL, tokenizer=tokenizer)
        )
    assert refused.value.action == action
