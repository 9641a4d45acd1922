r"""Texts as ids of their words, and of pairs of neighbouring words, by hash.

`"words": "lower_case"` takes runs of letters, marks, digits and underscores, in lower case, so that `Market,`
is `market`, and an apostrophe parts `it's`. `"words": "as_written"` takes what stands between blanks. Words
and pairs share one range of ids; id 0 is padding.
"""

from collections.abc import Callable

import keras
import tensorflow as tf

from pipeline.data.schema.feature_types import Text

_NOT_OF_A_WORD = r"[^\pL\pM\pN_]+"  # of RE2: `\w` would be ASCII alone


def sequence_length(feature: Text) -> int:
    """Counts the ids of a text: its first `length` words, then their pairs."""
    return 2 * feature.length - 1 if feature.pairs else feature.length


def word_ids(feature: Text) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a function from texts, string [batch], to ids 1 + hash, int32 [batch, sequence_length].

    Words stand from the first column on and pairs from column `length` on, each padded with 0.
    """
    hashing = keras.layers.Hashing(num_bins=feature.buckets)

    def hashed(words: tf.RaggedTensor, width: int) -> tf.Tensor:
        ids = words.with_flat_values(1 + tf.cast(hashing(words.flat_values), tf.int32))
        return ids[:, :width].to_tensor(shape=[None, width])

    def ids(texts: tf.Tensor) -> tf.Tensor:
        words = tf.strings.split(_plain(texts) if feature.words == "lower_case" else texts)
        found = hashed(words, feature.length)
        if not feature.pairs:
            return found
        return tf.concat([found, hashed(_pairs(words[:, : feature.length]), feature.length - 1)], axis=1)

    return ids


def _plain(texts: tf.Tensor) -> tf.Tensor:
    """The words of each text [batch] in lower case, between blanks."""
    return tf.strings.regex_replace(tf.strings.lower(texts, encoding="utf-8"), _NOT_OF_A_WORD, " ")


def _pairs(words: tf.RaggedTensor) -> tf.RaggedTensor:
    """Each word [batch, words] but the last, a blank, and the next one: [batch, words - 1]."""
    first, second = words[:, :-1], words[:, 1:]
    together = tf.strings.join([first.flat_values, second.flat_values], separator=" ")
    return second.with_flat_values(together)
