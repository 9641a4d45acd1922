r"""Texts as ids of their words, of pairs of neighbouring words, and of runs of characters, by hash.

`"words": "lower_case"` takes runs of letters, marks, digits and underscores, in lower case, so that `Market,`
is `market`, and an apostrophe parts `it's`. `"words": "as_written"` takes what stands between blanks. Words
and pairs share one range of ids; id 0 is padding. `"gap": 2` takes pairs with one or two words between them
too, as in `not very good`: these are other pairs than neighbours.

`"characters": [3, 6]` takes runs of 3 to 6 characters. They come from each piece of text between blanks, to
which a blank is added on both sides: `sadly.` gives among others ` sa` and `ly. `. So endings and misspelled
words count, and so do signs. Runs have a range of ids of their own, behind that of the words.
"""

from collections.abc import Callable

import keras
import tensorflow as tf

from pipeline.data.schema.feature_types import Text

_NOT_OF_A_WORD = r"[^\pL\pM\pN_]+"  # for RE2, whose `\w` is ASCII alone
# Room for 12 runs of characters for each word of `length`. infer_schema gives a text two to four times the
# length of a mean text, so a mean text has room for 24 runs or more of each word. The runs of a long text are
# cut off: all of them cost a step of 256 news of Reuters 0.7 s.
_RUNS, _MOST_RUNS = 12, 1024

Ids = Callable[[tf.Tensor], tf.Tensor]  # texts, string [batch] → ids, int32 [batch, columns]


def parts_of(feature: Text) -> tuple[int, ...]:
    """Counts the ids of a text by their kind: words (the first `length`) with pairs of neighbours; other
    pairs; runs.
    """
    pairs = [feature.length - apart for apart in _apart(feature)]
    runs = min(_RUNS * feature.length, _MOST_RUNS) if feature.characters else 0
    return tuple(filter(None, (feature.length + sum(pairs[:1]), sum(pairs[1:]), runs)))


def _apart(feature: Text) -> range:
    """How many places the words of pairs are apart: 1 for neighbours."""
    return range(1, 2 + feature.gap) if feature.pairs else range(0)


def different_ids(feature: Text) -> int:
    """Counts the ids that texts may have beside padding."""
    return 2 * feature.buckets if feature.characters else feature.buckets


def text_ids(feature: Text) -> Ids:
    """Returns a function from texts, string [batch], to ids, int32 [batch, sum of `parts_of`].

    Words stand from the first column on, pairs from column `length` on, the nearest ones first, and runs of
    characters behind them, each kind padded with 0.
    """
    words = _word_ids(feature)
    if not feature.characters:
        return words
    runs = _run_ids(feature)
    return lambda texts: tf.concat([words(texts), runs(texts)], axis=1)


def _word_ids(feature: Text) -> Ids:
    hashing = keras.layers.Hashing(num_bins=feature.buckets)

    def hashed(words: tf.RaggedTensor, width: int) -> tf.Tensor:
        ids = words.with_flat_values(1 + tf.cast(hashing(words.flat_values), tf.int32))
        return ids[:, :width].to_tensor(shape=[None, width])

    def ids(texts: tf.Tensor) -> tf.Tensor:
        words = tf.strings.split(_plain(texts) if feature.words == "lower_case" else texts)
        first = words[:, : feature.length]
        pairs = (hashed(_pairs(first, apart), feature.length - apart) for apart in _apart(feature))
        return tf.concat([hashed(words, feature.length), *pairs], axis=1)

    return ids


def _run_ids(feature: Text) -> Ids:
    hashing = keras.layers.Hashing(num_bins=feature.buckets)
    shortest, longest = feature.characters
    width = parts_of(feature)[-1]

    def of_words(words: tf.Tensor) -> tf.RaggedTensor:
        """The ids of the runs in each word: string [words] → [words, runs]."""
        spaced = tf.strings.join([" ", words, " "])
        characters = tf.strings.unicode_split(spaced, "UTF-8")[:, : width + shortest]
        runs = tf.strings.ngrams(characters, [*range(shortest, longest + 1)], separator="")
        return runs.with_flat_values(1 + feature.buckets + tf.cast(hashing(runs.flat_values), tf.int32))

    def ids(texts: tf.Tensor) -> tf.Tensor:
        lowered = tf.strings.lower(texts, encoding="utf-8") if feature.words == "lower_case" else texts
        words = tf.strings.split(lowered)[:, :width]
        # Most words of a batch stand there several times, and are cut and hashed once.
        different, place = tf.unique(words.flat_values)
        runs = words.with_flat_values(tf.gather(of_words(different), place))  # [batch, words, runs]
        return runs.merge_dims(1, 2)[:, :width].to_tensor(shape=[None, width])

    return ids


def _plain(texts: tf.Tensor) -> tf.Tensor:
    """The words of each text [batch] in lower case, between blanks."""
    return tf.strings.regex_replace(tf.strings.lower(texts, encoding="utf-8"), _NOT_OF_A_WORD, " ")


def _pairs(words: tf.RaggedTensor, apart: int) -> tf.RaggedTensor:
    """Joins each word [batch, words] with the word `apart` places on, by `apart` blanks: [batch, pairs]."""
    first, second = words[:, :-apart], words[:, apart:]
    together = tf.strings.join([first.flat_values, second.flat_values], separator=" " * apart)
    return second.with_flat_values(together)
