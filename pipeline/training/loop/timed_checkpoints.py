"""Checkpoints whose time counts: what saving takes from the loop, not what is written beside it."""

from collections.abc import Mapping, Sequence

from pipeline.training.loop.checkpoints import Checkpoints
from pipeline.training.loop.times import Times


class TimedCheckpoints:
    """`checkpoints`, with `times` told of saving and of waiting for what is being written."""

    def __init__(self, checkpoints: Checkpoints, times: Times) -> None:
        self._checkpoints = checkpoints
        self._times = times

    @property
    def newest(self) -> int:
        return self._checkpoints.newest

    @property
    def blocked_s(self) -> Sequence[float]:
        return self._checkpoints.blocked_s

    def save(self, step: int, session: Mapping, *, metrics: Mapping[str, float]) -> None:
        with self._times.during("checkpoint"):
            self._checkpoints.save(step, session, metrics=metrics)
            self._times.saved(self._checkpoints.blocked_s[-1])

    def finish(self) -> None:
        with self._times.during("checkpoint"):
            self._checkpoints.finish()

    def restore(self) -> tuple[int, Mapping]:
        return self._checkpoints.restore()  # a part of the start
