"""Which spans a model is trained on, and which it is judged on."""

import dataclasses
from collections.abc import Sequence

from ml_collections import ConfigDict

from pipeline.data.errors import InputError
from pipeline.release.cycles.settings import LATER
from pipeline.release.cycles.spans.survey import Span


@dataclasses.dataclass(frozen=True, kw_only=True)
class Window:
    """Spans in the order in which they are read.

    Attributes:
      left_out: spans that cannot be used; their `unusable` says why.
      missing: why there is nothing to train on or to judge with; empty where there is.
    """

    training: tuple[Span, ...]
    holdout: tuple[Span, ...]
    left_out: tuple[Span, ...]
    missing: str = ""

    @property
    def spans(self) -> tuple[Span, ...]:
        """All that are read, each once, in order."""
        return tuple(dict.fromkeys((*self.training, *self.holdout)))


def choose(spans: Sequence[Span], config: ConfigDict) -> Window:
    """The window that the config asks for; spans that nobody has converted yet count as usable.

    Raises:
      InputError: config.window.start is behind config.window.end.
    """
    start, end = config.window.start, config.window.end
    if start and end and start > end:
        raise InputError(
            "config.window.start",
            received=f"'{start}', which is behind config.window.end='{end}'",
            expected="the name of a span that is not later",
            action="Correct one of them. Spans are ordered by their names, as text.",
        )
    inside = [span for span in spans if (not start or span.name >= start) and (not end or span.name <= end)]
    usable = [span for span in inside if not span.unusable]
    is_later = config.holdout.kind == LATER
    held = config.holdout.last if is_later else 0
    before = usable[: len(usable) - held] if held <= len(usable) else []
    training = before[-config.window.last :] if config.window.last else before
    least = config.window.least
    missing = (
        f"{_count(len(usable))} can be used; {least} to train on"
        f"{f' and {held} behind them to judge with' if held else ''} are needed"
        if len(training) < least
        else ""
    )
    return Window(
        training=tuple(training),
        holdout=tuple(usable[len(before) :] if is_later else training),
        left_out=tuple(span for span in inside if span.unusable),
        missing=missing,
    )


def _count(spans: int) -> str:
    return "1 span" if spans == 1 else f"{spans or 'no'} spans"
