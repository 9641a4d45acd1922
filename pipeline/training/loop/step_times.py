"""How long single steps took: quantiles since the last log point, and over a process."""

import numpy as np

_QUANTILES = {"step_p50_ms": 0.5, "step_p95_ms": 0.95, "step_max_ms": 1.0}
# Over a process only a histogram is kept: bins 1% wide, from a microsecond to a day.
_SHORTEST_S, _LONGEST_S, _WIDTH = 1e-6, 86_400.0, 1.01
_BINS = int(np.log(_LONGEST_S / _SHORTEST_S) / np.log(_WIDTH)) + 1


class StepTimes:
    """Takes seconds of steps, each with its wait for input. The first one is left out: it compiles."""

    def __init__(self) -> None:
        self._recent: list[np.ndarray] = []
        self._counts = np.zeros(_BINS, np.int64)
        self._longest = 0.0
        self._is_first = True

    def add(self, seconds: np.ndarray) -> None:
        """Takes float64 [steps]."""
        seconds = seconds[1:] if self._is_first else seconds
        self._is_first = False
        if not len(seconds):
            return
        self._recent.append(seconds)
        bins = np.log(np.clip(seconds, _SHORTEST_S, _LONGEST_S) / _SHORTEST_S) / np.log(_WIDTH)
        np.add.at(self._counts, bins.astype(np.int64).clip(0, _BINS - 1), 1)
        self._longest = max(self._longest, float(seconds.max()))

    def take(self) -> dict[str, float]:
        """Milliseconds of the median, of the 95th percentile and of the longest step since the last call."""
        seconds, self._recent = self._recent, []
        if not seconds:
            return {}
        values = np.quantile(np.concatenate(seconds), list(_QUANTILES.values()), method="inverted_cdf")
        return {name: 1e3 * float(value) for name, value in zip(_QUANTILES, values, strict=True)}

    def of_all(self) -> dict[str, float]:
        """The same of all steps, to one percent; empty where there were none."""
        total = int(self._counts.sum())
        if not total:
            return {}
        ranks = np.searchsorted(np.cumsum(self._counts), [share * total for share in _QUANTILES.values()])
        middles = np.minimum(_SHORTEST_S * _WIDTH ** (ranks + 0.5), self._longest)
        middles[-1] = self._longest
        return {name: 1e3 * float(value) for name, value in zip(_QUANTILES, middles, strict=True)}
