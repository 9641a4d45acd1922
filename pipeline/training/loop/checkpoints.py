"""What the loop asks of whoever keeps its state."""

from collections.abc import Mapping, Sequence
from typing import Protocol


class Checkpoints(Protocol):
    """Keeps the state of a run at a step; `session` is the session's own part of it, and may hold arrays."""

    newest: int  # step of the newest checkpoint that is whole; 0: there is none
    blocked_s: Sequence[float]  # seconds that training waited, of each save

    def save(self, step: int, session: Mapping, *, metrics: Mapping[str, float]) -> None: ...

    def finish(self) -> None:
        """Waits until what was saved is on the disk."""

    def restore(self) -> tuple[int, Mapping]:
        """Restores the latest state; returns its step and session, (0, {}) if there is none."""
