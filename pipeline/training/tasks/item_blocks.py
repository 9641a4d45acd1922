"""Computes with the scores of all items, block by block: [batch, items] would not fit for a million items.

Each function takes queries of `batch` examples and `Scores`, and is exact over all items.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import tensorflow as tf

BLOCK = 1 << 14  # items; with 512 examples, their scores are 32 MiB
_AGAIN = -1  # no item


class Scores(Protocol):
    """Scores of `items` items; models/items.py has those of a model with vectors."""

    items: int

    def block(self, queries: tf.Tensor, first: tf.Tensor, size: int) -> tf.Tensor:
        """Scores of `size` items from `first`, int32 [], on: float32 [batch, size]."""


class Dense(NamedTuple):
    """Queries that are the scores themselves, float32 [batch, items]."""

    items: int

    def block(self, queries: tf.Tensor, first: tf.Tensor, size: int) -> tf.Tensor:
        return queries[:, first : first + size]


def best(queries: tf.Tensor, scores: Scores, k: int, *, block: int = BLOCK) -> tuple[tf.Tensor, tf.Tensor]:
    """The scores of the k best items, float32 [batch, k], the best first, and these items, int32.

    Among equal scores, the item of the lower index is first. If `k` is larger than the number of items, the
    result has all items.
    """
    k, rows = min(k, scores.items), tf.shape(queries)[0]

    def with_block(found: tuple[tf.Tensor, tf.Tensor], ids: tf.Tensor, each: tf.Tensor) -> tuple:
        top, at = found
        # Items of lower indices stand first, and top_k keeps this order among equal scores.
        values, places = tf.math.top_k(tf.concat([top, each], axis=1), k)
        ids = tf.broadcast_to(ids, tf.shape(each))
        return values, tf.gather(tf.concat([at, ids], axis=1), places, batch_dims=1)

    start = tf.fill([rows, k], -float("inf")), tf.fill([rows, k], scores.items)
    return _over_blocks(with_block, start, queries, scores, block)


def ranks(queries: tf.Tensor, scores: Scores, chosen: tf.Tensor, *, block: int = BLOCK) -> tf.Tensor:
    """Ranks the chosen items, int32 [batch], among all: float32 [batch, 3].

    The three numbers of an item are its log-probability in nats, by a softmax over all items; how many others
    have a higher score; and how many have the same. A score that is not a number counts as higher than any.
    """
    rows = tf.shape(queries)[0]

    def added(found: tuple, ids: tf.Tensor, each: tf.Tensor) -> tuple:
        own, largest, total = found
        own += tf.reduce_sum(tf.where(ids == chosen[:, None], each, 0.0), axis=1)
        above = tf.maximum(largest, tf.reduce_max(each, axis=1))
        # The sum of exponentials, relative to the largest score so far.
        total *= tf.exp(largest - above)
        return own, above, total + tf.reduce_sum(tf.exp(each - above[:, None]), axis=1)

    start = tf.zeros([rows]), tf.fill([rows], tf.float32.min), tf.zeros([rows])
    own, largest, total = _over_blocks(added, start, queries, scores, block)

    def counted(found: tuple, ids: tf.Tensor, each: tf.Tensor) -> tuple:
        # The same products as above, and so the same bits of equal scores.
        other = (ids != chosen[:, None]) & (each != -float("inf"))
        is_above, is_same = ~(each <= own[:, None]), each == own[:, None]
        return tuple(
            count + tf.reduce_sum(tf.cast(other & which, tf.float32), axis=1)
            for count, which in zip(found, (is_above, is_same), strict=True)
        )

    start = tf.zeros([rows]), tf.zeros([rows])
    above, same = _over_blocks(counted, start, queries, scores, block)
    return tf.stack([own - largest - tf.math.log(total), above, same], axis=1)


_Found = tuple[tf.Tensor, ...]


def _over_blocks(
    add: Callable[[_Found, tf.Tensor, tf.Tensor], _Found],
    start: _Found,
    queries: tf.Tensor,
    scores: Scores,
    block: int,
) -> _Found:
    """Returns `start` after `add(found, ids [1, n], scores [batch, n])` of one block after the other.

    All blocks have one size, which compilers want. So the last one begins earlier; the items that it repeats
    score -infinity, and have the id `_AGAIN`.
    """
    size = min(block, scores.items)
    blocks = -(-scores.items // size)

    def one_more(number: tf.Tensor, *found: tf.Tensor) -> tuple:
        first = tf.minimum(number * size, scores.items - size)
        ids = first + tf.range(size)[None, :]
        each = scores.block(queries, first, size)
        is_new = ids >= number * size
        each = tf.where(is_new, each, -float("inf"))
        return number + 1, *add(found, tf.where(is_new, ids, _AGAIN), each)

    _, *found = tf.while_loop(
        lambda number, *_: number < blocks, one_more, (tf.constant(0), *start), parallel_iterations=1
    )
    return tuple(found)
