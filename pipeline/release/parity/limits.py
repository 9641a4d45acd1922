"""How far an export may be from what was trained."""

import dataclasses

from pipeline.data.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class ParityLimits:
    """Attributes:

    rows: of the holdout that are asked, the first ones as they are stored, which is a random order.
    flipped: the largest part of the rows whose class may be another than in float32.
    moved: for a regression, the largest difference to float32, root of the mean square, as a part of the
      spread of what float32 predicts.
    """

    rows: int = 2_000
    flipped: float = 0.01
    moved: float = 0.05

    def __post_init__(self) -> None:
        """Raises InputError where a limit cannot be one."""
        for name, least in (("rows", 1), ("flipped", 0), ("moved", 0)):
            if not getattr(self, name) >= least:
                raise InputError(
                    f"limit '{name}' of parity",
                    received=getattr(self, name),
                    expected=f"a number from {least} on",
                    action="Correct it, or leave it out.",
                )
