"""history.jsonl: one line of JSON a log point, with a checksum, so that a damaged line is noticed."""

import pathlib
from collections.abc import Mapping

from pipeline.training.state import checked_lines

# Fields that measure the machine: they differ between runs that are equal otherwise.
MEASURED = (
    *("examples_per_s", "step_ms", "step_p50_ms", "step_p95_ms", "step_max_ms", "input_wait"),
    *("gflops_per_s", "mfu", "host_peak_mb", "device_peak_mb", checked_lines.CHECKSUM),
)
_WITHOUT = "the curves of before"


def append(path: pathlib.Path, point: Mapping) -> None:
    """Appends the line of a log point."""
    checked_lines.append(path, point)


def keep_up_to(path: pathlib.Path, step: int) -> None:
    """Drops what was logged after `step`, and a last line that a kill cut short.

    Raises:
      InputError: a line is damaged, or that of `step` is missing though there are others.
    """
    points = read(path)
    kept = [point for point in points if point["step"] <= step]
    # What is saved is logged first: so the line of the step that a checkpoint is of is always there.
    if step and points and (not kept or kept[-1]["step"] != step):
        received = f"no line of step {step:,}, of which there is a checkpoint"
        raise checked_lines.damaged(path, received, without=_WITHOUT)
    checked_lines.replace(path, kept)


def read(path: pathlib.Path) -> list[dict]:
    """The log points of all whole lines; raises InputError where one is damaged."""
    return checked_lines.read(path, checked=_with_step, without=_WITHOUT)


def _with_step(point: dict) -> dict:
    return {**point, "step": int(point["step"])}
