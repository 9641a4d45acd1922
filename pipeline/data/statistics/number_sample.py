"""What a sample of a column's numbers tells."""

import numpy as np

# A value's share of the sample tells its share of the rows to a third of it, with this many of it.
_FEWEST = 10
_MOST_VALUES = 64


def repeated(sample: np.ndarray) -> tuple[float, ...]:
    """The numbers that come at least 10 times, rising; the 64 most frequent, ties by value.

    A model can learn what such a number itself means: 99999 for "unknown", 40 hours for "full time".

    Args:
      sample: float64 [n].
    """
    values, counts = np.unique(sample[np.isfinite(sample)], return_counts=True)
    by_count = np.lexsort((values, -counts))[:_MOST_VALUES]
    return tuple(np.sort(values[by_count[counts[by_count] >= _FEWEST]]).tolist())
