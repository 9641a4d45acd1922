"""Learning rates over a run: a linear warm-up, then one of SCHEDULES."""

import math
from collections.abc import Callable, Mapping

import keras
from keras import ops

# Parts of the peak, of (progress from the end of the warm-up to the end of the run, 0 … 1; step; warm-up).
_Decay = Callable[[object, object, float], object]
SCHEDULES: Mapping[str, _Decay] = {
    "constant": lambda progress, step, warmup: ops.ones_like(progress),
    # Loshchilov & Hutter 2017, "SGDR", equation 5, without restarts.
    "cosine": lambda progress, step, warmup: 0.5 * (1.0 + ops.cos(math.pi * progress)),
    "linear": lambda progress, step, warmup: 1.0 - progress,
    # Vaswani et al. 2017, "Attention Is All You Need", equation 3, with a peak of 1: the last step of the
    # warm-up has it, and the first one after, as in the other schedules.
    "rsqrt": lambda progress, step, warmup: ops.sqrt(warmup / ops.maximum(step, warmup)),
}


@keras.saving.register_keras_serializable("penstock")
class WarmedUp(keras.optimizers.schedules.LearningRateSchedule):
    """The rate of a step, from 0: `peak` * (step + 1) / `warmup` during the warm-up, then the schedule's.

    The first step's rate is above 0, or it would change nothing. `total` is the number of steps of the run.
    """

    def __init__(self, schedule: str, *, peak: float, warmup: int, total: int) -> None:
        self.schedule, self.peak, self.warmup, self.total = schedule, peak, warmup, total

    def __call__(self, step: object) -> object:
        step = ops.cast(step, "float32")
        rising = (step + 1.0) / max(1, self.warmup)
        progress = ops.clip((step - self.warmup) / max(1, self.total - self.warmup), 0.0, 1.0)
        falling = SCHEDULES[self.schedule](progress, step, float(max(1, self.warmup)))
        return self.peak * ops.where(step < self.warmup, rising, falling)

    def get_config(self) -> dict:
        return dict(vars(self))
