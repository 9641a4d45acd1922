"""Continues prompts token by token, with a constant amount of work for each token.

A model sees a row of `length` tokens, as in training. While there is room, a step reads one token: keys and
values of those before are kept. When a row is full, its later half begins a new one, and is read again at
once: in training, too, a long document goes on in a new row. So a token costs one step and, on average, two
tokens of reading anew, however long the text is.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import keras
import numpy as np
import tensorflow as tf

from models.transformer import Decoder
from pipeline.data.schema.feature_types import TokenLabel
from pipeline.generation.sampling import Sampling

_OWN_DOCUMENT = 2  # as a model gets segment 1: ids begin with 1


class Decoding(Protocol):
    """Computes logits of the next tokens of a batch of rows, float32 [batch, tokens]."""

    def start(self, tokens: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Reads rows anew, int32 [batch, length]; tokens behind place `last`, int32 [batch], do not count."""

    def step(self, tokens: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Reads one more token of each row, int32 [batch], at its place, int32 [batch]."""


class Cached:
    """Decodes with `models.transformer.Decoder`. Raises ValueError for a model that it does not know."""

    def __init__(self, model: keras.Model) -> None:
        decoder = Decoder(model)
        self.start_graph = tf.function(decoder.start, autograph=False)
        self.step_graph = tf.function(decoder.step, autograph=False)
        self._cache: list = []

    def start(self, tokens: np.ndarray, last: np.ndarray) -> np.ndarray:
        logits, self._cache = self.start_graph(tf.constant(tokens + 1), tf.constant(last))
        return logits.numpy()

    def step(self, tokens: np.ndarray, places: np.ndarray) -> np.ndarray:
        logits, self._cache = self.step_graph(tf.constant(tokens + 1), tf.constant(places), self._cache)
        return logits.numpy()


class Recomputed:
    """Decodes with any model of packed tokens, which computes the whole row for each token."""

    def __init__(self, model: keras.Model, label: TokenLabel) -> None:
        self._names = label.parts
        self._rows = np.zeros((0, label.length), np.int32)

        @tf.function(autograph=False)
        def logits(tokens: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
            rows = (tokens + 1, tf.fill(tf.shape(tokens), _OWN_DOCUMENT))
            found = model(dict(zip(self._names, rows, strict=False)), training=False)
            return tf.gather(found, last, axis=1, batch_dims=1)

        self._logits = logits

    def start(self, tokens: np.ndarray, last: np.ndarray) -> np.ndarray:
        self._rows = tokens.copy()
        return self._logits(tf.constant(tokens), tf.constant(last)).numpy()

    def step(self, tokens: np.ndarray, places: np.ndarray) -> np.ndarray:
        self._rows[np.arange(len(tokens)), places] = tokens
        return self._logits(tf.constant(self._rows), tf.constant(places)).numpy()


def decoding_of(model: keras.Model, label: TokenLabel) -> Decoding:
    """Keeps keys and values where it can."""
    try:
        return Cached(model)
    except ValueError:
        return Recomputed(model, label)


@dataclasses.dataclass(kw_only=True)
class Continued:
    """A prompt and what came after it. `ended`: by the end of its document, a stop text, or the length."""

    prompt: tuple[int, ...]
    tokens: list[int] = dataclasses.field(default_factory=list)
    ended: Literal["end", "stop", "length", ""] = ""


def continue_prompts(
    decoding: Decoding,
    prompts: Sequence[Sequence[int]],
    *,
    length: int,
    most: int,
    sampling: Sampling,
    end: int | None = None,
    is_stop: Callable[[Sequence[int]], bool] = lambda tokens: False,
) -> list[Continued]:
    """Returns up to `most` tokens after each prompt, all prompts side by side.

    Args:
      prompts: the tokens of each, at least one; the last `length` of them count.
      length: tokens of a row that the model sees.
      end: the token that closes a document; None: there is none.
      is_stop: (tokens after a prompt) → whether they are enough.
    """
    texts = [Continued(prompt=tuple(prompt)) for prompt in prompts]
    rows = [_Row(list(prompt)[-length:], length) for prompt in prompts]
    draws = [sampling.draws(number) for number in range(len(prompts))]
    logits = _start(decoding, rows)
    for count in range(1, most + 1):
        for text, row, draw, own in zip(texts, rows, draws, logits, strict=True):
            if not text.ended:
                token = sampling.choose(own, draw)
                text.tokens.append(token)
                row.add(token)
                text.ended = _ended(text.tokens, end, is_stop) or ("length" if count == most else "")
        if all(text.ended for text in texts):
            break
        logits = _start(decoding, rows) if any(row.is_new for row in rows) else _step(decoding, rows)
    return texts


def _ended(tokens: Sequence[int], end: int | None, is_stop: Callable) -> Literal["end", "stop", ""]:
    if tokens[-1] == end:
        return "end"
    return "stop" if is_stop(tokens) else ""


class _Row:
    """The tokens that the model sees of a text. `is_new`: they are to be read anew."""

    def __init__(self, tokens: list[int], length: int) -> None:
        self.tokens, self.length, self.is_new = tokens, length, True

    def add(self, token: int) -> None:
        self.is_new = len(self.tokens) == self.length
        if self.is_new:
            del self.tokens[: -(self.length // 2)]
        self.tokens.append(token)


def _start(decoding: Decoding, rows: Sequence[_Row]) -> np.ndarray:
    tokens = np.zeros((len(rows), rows[0].length), np.int32)
    for number, row in enumerate(rows):
        tokens[number, : len(row.tokens)] = row.tokens
        row.is_new = False
    return decoding.start(tokens, _places(rows))


def _step(decoding: Decoding, rows: Sequence[_Row]) -> np.ndarray:
    # A text that has ended reads its last token again, at the same place.
    return decoding.step(np.array([row.tokens[-1] for row in rows], np.int32), _places(rows))


def _places(rows: Sequence[_Row]) -> np.ndarray:
    return np.array([len(row.tokens) - 1 for row in rows], np.int32)
