"""How many more examples a second a faster input could give: a run's own input beside batches that are kept.

Nothing is written: the steps change a model that is thrown away.
"""

import dataclasses

import tensorflow as tf

from pipeline.report.formats import three_digits
from pipeline.training.engine import cluster
from pipeline.training.loop.clock import Tally
from pipeline.training.run import parts
from pipeline.training.run.request import Request
from pipeline.training.run.setup import decide

KEPT = 8  # batches of a replica that are kept in memory
_AHEAD = 16  # batches that a pipeline and a strategy hold ready, at most: after these, all come from memory
_ENOUGH = 1.05  # measurements of some hundred steps differ by this much: a smaller gain means nothing


@dataclasses.dataclass(frozen=True, kw_only=True)
class Headspace:
    """The same steps, on the run's own input and on kept batches.

    `flops_per_example` is what a step computes for an example; 0 if it cannot be counted.
    """

    global_batch: int
    own: Tally
    kept: Tally
    flops_per_example: float = 0.0

    @property
    def gain(self) -> float:
        """The speed with kept batches, which cost nothing to read, divided by that with the own input."""
        return (self.own.seconds / self.own.steps) / (self.kept.seconds / self.kept.steps)

    def to_json(self) -> dict:
        return {
            "own": self.own.speed(global_batch=self.global_batch),
            "kept": self.kept.speed(global_batch=self.global_batch),
            "gain": self.gain,
            "flops_per_example": self.flops_per_example,
        }

    def lines(self) -> str:
        """What a person reads: both speeds, and what follows."""
        rows = (("own input", self.own), (f"{KEPT} kept batches", self.kept))
        return "\n".join(
            [*(f"headspace  {name:<15} {self._speed(each)}" for name, each in rows), self._verdict()]
        )

    def _speed(self, tally: Tally) -> str:
        speed = tally.speed(global_batch=self.global_batch)
        return (
            f"{three_digits(speed['examples_per_s'])} examples/s, {three_digits(speed['step_ms'])} ms a "
            f"step, {speed['input_wait']:.1%} of it waiting for input ({tally.steps:,} steps)"
        )

    def _verdict(self) -> str:
        if self.gain < _ENOUGH:
            return "verdict    the input is not the limit: a faster one would give less than 5% more"
        return (
            f"verdict    the input is the limit: without its cost, at most {self.gain:.2f} times as many "
            "examples a second. pipeline.feed_rate names the stage that takes the time."
        )


def own_then_kept(batches: tf.data.Dataset, *, own: int, kept: int) -> tf.data.Dataset:
    """The first `own` batches; then the first `kept` ones, made again and repeated for ever."""
    return batches.take(own).concatenate(batches.take(kept).cache().repeat())


def measure(request: Request, *, steps: int) -> Headspace:
    """Runs `steps` steps on the run's own input, from its first example on, then as many on kept batches.

    Both run in one compiled loop, so a network is compiled once. A tenth of the steps comes before, and does
    not count: it empties what was made ready while the step was compiled.

    Raises:
      InputError: something in the request, the dataset or the working directory is wrong.
    """
    with cluster.name_lost_worker():
        run = parts.build(decide(request))
        warm = 1 + steps // 10

        def make(context: tf.distribute.InputContext) -> tf.data.Dataset:
            replicas = context.num_replicas_in_sync // context.num_input_pipelines
            batches = parts.host_batches(run, 0, context)
            return own_then_kept(batches, own=(warm + steps) * replicas, kept=KEPT * replicas)

        loop = parts.inner_loop_of(run, make, on_steps=lambda seconds: None)
        loop(warm)
        own = loop(steps)
        loop(KEPT + _AHEAD)
        return Headspace(
            global_batch=run.setup.experiment.data.global_batch,
            own=own,
            kept=loop(steps),
            flops_per_example=parts.measures_of(run).flops_per_example,
        )
