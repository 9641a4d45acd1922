"""What a run measures of itself besides its loss: step times, operations, utilisation, memory."""

import keras
import tensorflow as tf

from pipeline.training.engine.measures import accelerators, flops, memory
from pipeline.training.loop.step_times import StepTimes
from pipeline.training.report.drawing.formats import three_digits


class Measures:
    """Measures of one process.

    `flops_per_example` are those of a training step, 0 where they could not be counted.
    """

    def __init__(self, model: keras.Model, strategy: tf.distribute.Strategy, *, global_batch: int) -> None:
        self.steps = StepTimes()
        self.flops_per_example = flops.TRAINING * (flops.forward_flops(model) or 0)
        self.accelerator = accelerators.accelerator_of(strategy)
        self._peak = accelerators.peak_of(self.accelerator)
        self._replicas = strategy.num_replicas_in_sync
        self._global_batch = global_batch

    def of(self, point: dict) -> dict:
        """A log point with the measures of its steps."""
        return {**point, **self.steps.take(), **self._use(point["examples_per_s"]), **memory.peaks()}

    def line(self) -> str:
        """`numbers    step p50 1.3 ms, p95 2.0 ms, max 9 ms; …`"""
        times = ", ".join(
            f"{name.split('_')[1]} {three_digits(value)} ms" for name, value in self.steps.of_all().items()
        )
        steps = [f"step {times}"] if times else []
        host = memory.peaks()
        device = f" and {host['device_peak_mb']:,.0f} MB of a device" if "device_peak_mb" in host else ""
        held = f"memory {host['host_peak_mb']:,.0f} MB{device} at most"
        return f"numbers    {'; '.join([*steps, self._operations(), self._utilisation(), held])}"

    def _use(self, examples_per_s: float) -> dict[str, float]:
        """Operations a second, over all replicas, and their share of the peak, where that is known."""
        if not self.flops_per_example:
            return {}
        done = self.flops_per_example * examples_per_s
        share = {"mfu": done / (1e12 * self._peak.teraflops * self._replicas)} if self._peak else {}
        return {"gflops_per_s": done / 1e9, **share}

    def _operations(self) -> str:
        if not self.flops_per_example:
            return "FLOPs not counted"
        return f"{three_digits(self.flops_per_example / 1e6)} MFLOPs an example (3 × forward)"

    def _utilisation(self) -> str:
        if self._peak is None:
            return f"MFU unknown: no peak in the table for {self.accelerator}"
        if not self.flops_per_example or not self.steps.of_all():
            return "MFU unknown"
        examples_per_s = 1e3 * self._global_batch / self.steps.of_all()["step_p50_ms"]
        share = self._use(examples_per_s)["mfu"]
        return f"MFU {share:.1%} of {self._peak.teraflops:g} TFLOP/s a {self._peak.name}, at the median step"
