"""The kind `numeric`: one number, stored as float32 or int64."""

import dataclasses
import math
from typing import ClassVar, Literal

from pipeline.data.schema.feature import Dtype, Feature


@dataclasses.dataclass(frozen=True, kw_only=True)
class Numeric(Feature):
    """One number. A number outside of [minimum, maximum] rejects its row.

    A record holds the number less the `offset`: float32 keeps 7 digits, and in -73.98713 five of those say
    nothing. What is raw (`minimum`, `maximum`, `default`, cells, the text of requests) is without it.
    """

    number: Literal["float32", "int64"] = "float32"
    minimum: float | None = None
    maximum: float | None = None
    offset: float = 0.0
    kind: ClassVar[str] = "numeric"

    @property
    def dtype(self) -> Dtype:
        return self.number

    @property
    def fill(self) -> float | int | str | None:
        fill = super().fill
        return fill - self.offset if self.missing == "default" and self.offset else fill

    @property
    def is_text_in_requests(self) -> bool:
        # A request's float32 would have lost what the offset is there to keep.
        return self.clean.rewrites or self.offset != 0

    @property
    def stored_range(self) -> tuple[float | None, float | None]:
        """The least and the greatest number that a record may hold; None: any."""
        low, high = (None if bound is None else bound - self.offset for bound in (self.minimum, self.maximum))
        return low, high

    def _check(self) -> None:
        self._require_one_of("number", ("float32", "int64"))
        self._require_number_as_default()
        possible = math.isfinite(self.offset) and (self.number == "float32" or not self.offset)
        self._require(possible, "offset", self.offset, "a finite number, and none of an int64")
