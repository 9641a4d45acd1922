"""What terminal and page say of a step, a window and their losses, each in a line."""

import math

import numpy as np

from pipeline.data.printable import printable
from pipeline.training.replaying.jumps import JUMP, Window
from pipeline.training.replaying.replayed_step import ReplayedStep
from pipeline.training.replaying.spikes import Spike, SpikedStep, Spikes
from pipeline.training.report.drawing import formats

_FAR = "robust standard deviations"
_NAME = 40  # characters of a feature's name


def place_of_step(step: ReplayedStep) -> str:
    """Where the step's batch stands in the stream."""
    first, count = step.first_position, len(step.losses)
    last = first + count - 1
    return f"epoch {step.epoch:,}, positions {first:,} to {last:,} of the stream: {count:,} examples"


def weighted(step: ReplayedStep) -> str:
    """What the losses are, where examples have weights; else empty."""
    if not step.weighted_by:
        return ""
    name = formats.shortened(printable(step.weighted_by), _NAME)
    return (
        f"each loss is times the example's {name}, relative to the mean: the order is of what moved the step"
    )


def losses(values: np.ndarray) -> str:
    """Mean, median and largest of float32 [n], as far as they are finite; and how many are not."""
    finite = values[np.isfinite(values)].astype(np.float64)
    bad = len(values) - len(finite)
    said = [f"{bad:,} not finite"] if bad else []
    if len(finite):
        numbers = {"mean": finite.mean(), "median": np.median(finite), "largest": finite.max()}
        said += [f"{name} {formats.number(float(value))}" for name, value in numbers.items()]
    return ", ".join(said)


def window(found: Window) -> str:
    """`steps 100 to 199: loss 0.91 after 0.3102, 12.3 robust standard deviations more`."""
    steps = f"steps {found.first:,} to {found.last - 1:,}"
    if not math.isfinite(found.loss):
        return f"{steps}: no finite loss was logged before the run ended"
    loss, usual = formats.number(found.loss), formats.number(found.usual)
    return f"{steps}: loss {loss} after {usual}, {found.score:.1f} {_FAR} more"


def verdict(spike: Spike) -> str:
    """How the steps of the window, and of the one before, compare."""
    steps = f"steps {spike.first:,} to {spike.window.last - 1:,}"
    weights = spike.weights.seen_from(spike.first)
    if spike.steps:
        return f"of the {steps} these stand out, under {weights}:"
    return f"no batch of the {steps} stands out under {weights}: the data do not explain the jump"


def spiked_step(step: SpikedStep) -> str:
    """How far the step's loss is from those around it."""
    loss, usual = formats.number(step.replayed.loss), formats.number(step.usual)
    how_far = f", {step.score:.1f} {_FAR} more" if math.isfinite(step.score) else ""
    return f"step {step.replayed.step:,}: loss {loss}, usual there {usual}{how_far}"


def no_jump(spikes: Spikes) -> str:
    """What is said where no window jumped."""
    return (
        f"no jump: of {spikes.points:,} log points none has a loss more than {JUMP:g} {_FAR} above those "
        "before it"
    )


def left_out(spikes: Spikes) -> str:
    """What is said of windows that were not looked into; empty where there are none."""
    return f"{spikes.left_out:,} more windows jumped, but less" if spikes.left_out else ""
