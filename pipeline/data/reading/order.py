"""The orders in which rows are read: pure functions of the seed and of a position in the stream.

Nothing is drawn and no state is kept: whatever the number of hosts, threads or restarts, the row at a
position is the same. Any element of a permutation is computed at once.
"""

import tensorflow as tf

from pipeline.data.dataset.selection import Selection
from pipeline.data.reading.permutation import SHORT, TURNS, WHOLE_EPOCH, Words, words_for

# The version of the orders in which all ways of reading give their rows; the sizes of windows and mixtures
# are part of it. Increase it with every change: no run may continue in another order than it began in.
VERSION = 1


def selected_rows(positions: tf.Tensor, selection: Selection, *, seed: int) -> tf.Tensor:
    """The rows that a permutation of the whole epoch puts at ascending positions, int64 [n].

    Returns:
      int64 [n], numbers of rows over all shards of the selection.
    """
    rows = _shuffled_rows(positions, rows=selection.rows, seed=seed)
    if len(selection.ranges) == 1:
        return rows + selection.ranges[0][0]
    firsts = tf.constant([first for first, _ in selection.ranges], tf.int64)
    sizes = tf.constant([last - first for first, last in selection.ranges], tf.int64)
    starts = tf.cumsum(sizes, exclusive=True)
    part = tf.searchsorted(starts, rows, side="right") - 1
    return rows - tf.gather(starts, part) + tf.gather(firsts, part)


def _shuffled_rows(positions: tf.Tensor, *, rows: int, seed: int) -> tf.Tensor:
    """The rows at these positions; each epoch is a permutation of its own of all `rows` rows.

    Args:
      positions: int64 [n], ascending positions in the endless stream; the epoch follows from them.

    Returns:
      int64 [n], rows in [0, rows).
    """
    first_epoch = positions[0] // rows
    offsets = positions - first_epoch * rows
    # Positions are nearly always in one epoch; dividing each position would cost as much as permuting it.
    return tf.cond(
        offsets[-1] < rows,
        lambda: _rows(offsets, first_epoch, rows=rows, seed=seed),
        lambda: _rows(offsets % rows, first_epoch + offsets // rows, rows=rows, seed=seed),
    )


def shuffled_parts(parts: int, *, seed: int, epoch: tf.Tensor) -> tf.Tensor:
    """A permutation, int32 [parts], of the parts of the data; each epoch, int64 [], has its own."""
    return shuffled_window(tf.constant(parts), seed=seed, epoch=epoch, window=WHOLE_EPOCH)


def shuffled_window(rows: tf.Tensor, *, seed: int, epoch: tf.Tensor, window: tf.Tensor | int) -> tf.Tensor:
    """A permutation, int32 [rows], of the `rows` rows (integer []) of a window; each epoch has its own."""
    rows = tf.cast(rows, tf.int32)
    return Permutation(rows, seed=seed)(tf.range(rows), epoch, window)


def shuffled_windows(rows: tf.Tensor, *, seed: int, epoch: tf.Tensor, windows: tf.Tensor) -> tf.Tensor:
    """`shuffled_window` of n windows at once, one after the other.

    Args:
      rows: int64 [n].
      windows: int64 [n].

    Returns:
      int32 [sum of rows]; each permutation starts at the number of all rows before it.
    """
    rows = tf.cast(rows, tf.int32)
    most = tf.reduce_max(rows)
    places = tf.broadcast_to(tf.range(most), [tf.size(rows), most])
    before = tf.cumsum(rows, exclusive=True)[:, None]

    def mixed(rows: tf.Tensor) -> tf.Tensor:
        one_at_least = tf.maximum(rows, 1)
        return before + Permutation(one_at_least, seed=seed)(places, epoch, windows[:, None])

    def uneven() -> tf.Tensor:
        # A window with fewer rows than the largest one has places without a row, which are left out.
        return tf.boolean_mask(mixed(rows[:, None]), places < rows[:, None])

    # Windows nearly always have equally many rows: one number for all costs a seventh less.
    return tf.cond(tf.reduce_min(rows) == most, lambda: tf.reshape(mixed(most), [-1]), uneven)


def _rows(offsets: tf.Tensor, epochs: tf.Tensor, *, rows: int, seed: int) -> tf.Tensor:
    """The rows, int64 [n], at these offsets in their epochs."""
    permutation = Permutation(rows, seed=seed)
    return tf.cast(permutation(tf.cast(offsets, permutation.dtype), epochs), tf.int64)


# --- Permutations of a range of integers.


class Permutation:
    """Permutes [0, rows); with int32 up to 2**30 rows, and in twice the time with int64 up to 2**62.

    Any element is computed at once, in 15 to 30 ns. It is a Feistel network over pairs: row p is the pair (p
    // b, p % b). In turn, each half is shifted, modulo its size, by a hash of the other half and a key.
    Shifting back undoes such a turn, so no two rows get the same place. There are four turns, as in Luby and
    Rackoff 1988, "How to construct pseudorandom permutations from pseudorandom functions".
    `tf.random.experimental.index_shuffle` permutes too. But it takes 45 ns, half of the time of gathering a
    mapped row; and with its four rounds, permutations of 2**33 rows are uneven. Several permutations are
    computed at once where `rows` is a tensor that broadcasts with the indices.
    """

    def __init__(self, rows: int | tf.Tensor, *, seed: int) -> None:
        self._words = words_for(rows) if isinstance(rows, int) else SHORT
        self.dtype = tf.as_dtype(self._words.dtype)
        self._rows = tf.cast(rows, self.dtype)
        self._halves = _halves(self._rows)
        self._seeds = tf.constant(self._words.seeds(seed), self.dtype)

    def __call__(self, indices: tf.Tensor, epochs: tf.Tensor, windows: tf.Tensor | int = 0) -> tf.Tensor:
        """Indices of `dtype` [n] in [0, rows) → the rows there, `dtype` [n].

        Args:
          epochs: int64, [] or [n]; each has a permutation of its own.
          windows: the same.
        """
        words = self._words
        of_epoch = tf.cast(epochs, self.dtype) * words.multipliers[1]
        number = of_epoch + tf.cast(windows, self.dtype) * words.stride
        keys = tf.unstack(_mixed(number[..., None] + self._seeds, words), axis=-1)
        # Rows are turned before and after, because the shifts do not move the few rows that make no whole
        # pair.
        turned = self._turned(indices, keys[TURNS])
        return self._turned(self._shifted(turned, keys[:TURNS]), keys[TURNS + 1])

    def _turned(self, rows: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
        return _wrapped(
            rows + tf.bitwise.bitwise_and(key, self.dtype.max) % self._rows, self._rows, self._words
        )

    def _shifted(self, rows: tf.Tensor, keys: list[tf.Tensor]) -> tf.Tensor:
        sizes, words = self._halves, self._words
        first = quotient(rows, sizes[1])
        halves = [first, rows - first * sizes[1]]
        for turn, key in enumerate(keys):
            other, mine = turn % 2, 1 - turn % 2
            shift = _scaled(_mixed(halves[other] * words.multipliers[0] + key, words), sizes[mine], words)
            halves[mine] = _wrapped(halves[mine] + shift, sizes[mine], words)
        shifted = halves[0] * sizes[1] + halves[1]
        with tf.control_dependencies([shifted]):  # one after the other: see `_wrapped`
            is_of_pair = rows < sizes[0] * sizes[1]
        # They have one shape, and `tf.where` would broadcast.
        return tf.compat.v1.where(is_of_pair, shifted, rows)


def quotient(numbers: tf.Tensor, divisor: tf.Tensor | int) -> tf.Tensor:
    """Divides integers of at least 0 by one of at least 1, of the same type or Python's, and rounds down.

    Integers of 32 bits are divided as float64, in half of the time.
    """
    if numbers.dtype != tf.int32:
        return tf.truncatediv(numbers, divisor)
    # Half a step is added, because TensorFlow's optimizer turns a division by a constant into a product with
    # its reciprocal, and 49 * (1 / 49) is less than 1. Then a quotient is at least 1 / (2 * divisor) away
    # from the nearest whole numbers; the error is less than a millionth of that.
    halfway = tf.cast(numbers, tf.float64) + 0.5
    return tf.cast(halfway / tf.cast(divisor, tf.float64), tf.int32)


def _halves(rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """(a, b), both near the root of `rows`, with a * b at most `rows`, and as close to it as possible."""
    root = tf.cast(tf.sqrt(tf.cast(rows, tf.float64)), rows.dtype)[..., None]
    least = tf.maximum(tf.ones_like(root), root - root // 4)
    sizes = tf.minimum(least + tf.range(tf.reduce_max(root - least) + 1), root)
    left = rows[..., None] % sizes
    fewest = tf.reduce_min(left, axis=-1, keepdims=True)
    first = tf.reduce_min(tf.where(left == fewest, sizes, root), axis=-1)
    return first, rows // first


def _mixed(values: tf.Tensor, words: Words) -> tf.Tensor:
    for shift, multiplier in zip(words.shifts, words.multipliers, strict=True):
        values = tf.bitwise.bitwise_xor(values, tf.bitwise.right_shift(values, shift)) * multiplier
    return values


def _scaled(hashes: tf.Tensor, size: tf.Tensor, words: Words) -> tf.Tensor:
    """Hashes → numbers in [0, size), by their upper bits without the sign."""
    # Doubling pushes the sign out; a mask takes several times as long.
    twice = tf.bitcast(hashes + hashes, words.unsigned)
    unused = tf.constant(words.bits - words.fraction_bits, words.unsigned)
    upper = tf.bitcast(tf.bitwise.right_shift(twice, unused), words.dtype)
    return tf.bitwise.right_shift(upper * size, words.fraction_bits)


def _wrapped(values: tf.Tensor, size: tf.Tensor, words: Words) -> tf.Tensor:
    """Values below twice the size, modulo the size.

    If the size is subtracted from a smaller unsigned number, the result is very large, so a minimum picks the
    right one. Each operation takes the result of the one before: if two could run at once, TensorFlow would
    wake another thread.
    """
    whole = tf.bitcast(values, words.unsigned)
    less = whole - tf.bitcast(size, words.unsigned)
    return tf.bitcast(tf.minimum(whole, less), words.dtype)
