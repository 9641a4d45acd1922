"""Progress of a run on the terminal: a bar where someone is watching, lines where output goes to a file."""

import datetime
import sys
import time
from collections.abc import Callable, Mapping
from typing import TextIO

from tqdm import tqdm


class Progress:
    """Shows log points (the lines of history.jsonl) as they come."""

    def __init__(
        self,
        *,
        total_steps: int,
        step: int,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._done, self._since = step, clock()  # what the time left is reckoned from
        self._stream = stream or sys.stdout
        self._total = total_steps
        is_watched = self._stream.isatty()
        self._bar = tqdm(
            total=total_steps, initial=step, unit="step", file=self._stream, disable=not is_watched
        )

    def first_step(self, tracing_s: float, step_s: float) -> None:
        """Says that training has begun: compiling may take minutes."""
        self._done, self._since = self._done + 1, self._clock()
        self.tell(f"first step done; tracing took {tracing_s:.1f} s, compiling and running it {step_s:.1f} s")

    def tell(self, line: str) -> None:
        """Shows a line, above the bar where there is one."""
        self._bar.write(line, file=self._stream)
        self._stream.flush()

    def show(self, point: Mapping) -> None:
        """Shows one log point."""
        if self._bar.disable:
            line = f"{describe(point, self._total)}{self._left(point['step'])}"
            print(line, file=self._stream, flush=True)
            return
        self._bar.update(point["step"] - self._bar.n)
        self._bar.set_postfix_str(", ".join(_speed_and_loss(point)))
        if "validation" in point:
            self._bar.write(describe(point, self._total), file=self._stream)

    def _left(self, step: int) -> str:
        """The time left after `step`, at the speed until then, with evaluation; the bar has its own."""
        if not self._done < step < self._total:
            return ""
        seconds = (self._clock() - self._since) / (step - self._done) * (self._total - step)
        return f"  left {datetime.timedelta(seconds=round(seconds))}"

    def close(self) -> None:
        """Ends the bar."""
        self._bar.close()


def describe(point: Mapping, total_steps: int) -> str:
    """One line of step, epoch, loss, accuracy, speed, time spent waiting for input, validation metrics."""
    words = [
        f"step {point['step']:,}/{total_steps:,}",
        f"epoch {point['epoch']:.2f}",
        *_speed_and_loss(point),
    ]
    if "validation" in point:
        words.append(summary(point["validation"]))
    return "  ".join(words)


def summary(metrics: Mapping) -> str:
    """The numbers of an evaluation in one line, after the name of its split."""
    numbers = [f"{name} {number(value)}" for name, value in metrics.items() if isinstance(value, float)]
    return f"{metrics['split']}: {' '.join(numbers)}"


def number(value: float) -> str:
    """Four decimals; four digits of a small number, six from a thousand on: 0.0009432 0.1234 1.68355e+11."""
    if value and abs(value) < 0.1:
        return f"{value:.4g}"
    return f"{value:.4f}" if abs(value) < 1_000 else f"{value:.6g}"


def _speed_and_loss(point: Mapping) -> list[str]:
    return [
        *(f"{name} {number(point[name])}" for name in ("loss", "accuracy") if name in point),
        f"{point['examples_per_s']:,.0f} examples/s",
        f"{point['step_ms']:.1f} ms/step",
        f"input wait {point['input_wait']:.1%}",
    ]
