"""The distinct values of a raw column with their counts, in bounded memory."""

import collections

import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.proposal.column_profile import IN_NUMBERS, NULL_MARKERS, is_number, is_whole_number
from pipeline.data.schema.feature import Clean

# Spellings that Arrow reads as a number too; leading zeros make a code.
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]+)?$"
_WHOLE = r"^-?(0|[1-9][0-9]*)$"
_MOSTLY = 0.9  # of the values are numbers in a column of numbers


class ValueCounts:
    """Counts of text values, without what a `Clean` strips from their ends.

    From the first `limit` different values on, or the first of `most_bytes` together, new ones are counted
    together as `others`. Only those that
    may change what is proposed get a count of their own: markers of missing values and, among numbers, what
    is no number, the first fraction, the smallest and the largest.
    """

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.others = 0
        self._bytes = 0.0  # of the different values, about
        self._kept: pa.Array | None = None  # the keys of `counts`, once there are enough
        self._are_numbers = self._are_whole = False
        self._least = self._most = 0.0

    @property
    def total(self) -> int:
        return self.counts.total() + self.others

    def add(self, values: pa.StringArray, *, limit: int, most_bytes: int) -> None:
        """Counts the values [rows] that are not null."""
        before = len(self.counts)
        counted = pc.utf8_trim(values.drop_null(), Clean.strip).value_counts()
        if self._kept is not None:
            counted = self._without_others(counted, limit)
        distinct, counts = counted.field("values").to_pylist(), counted.field("counts").to_pylist()
        self.counts.update(dict(zip(distinct, counts, strict=True)))
        if self._kept is None:
            new = (len(self.counts) - before) / max(1, len(distinct))
            self._bytes += new * counted.field("values").nbytes
            if len(self.counts) >= limit or self._bytes >= most_bytes:
                self._keep_these()

    def _keep_these(self) -> None:
        self._kept = pa.array(self.counts, pa.string())
        numbers = [value for value in self.counts if is_number(value)]
        self._are_numbers = len(numbers) >= _MOSTLY * len(self.counts)
        if self._are_numbers:
            self._are_whole = all(map(is_whole_number, numbers))
            self._least, self._most = min(map(float, numbers)), max(map(float, numbers))

    def _without_others(self, counted: pa.StructArray, limit: int) -> pa.StructArray:
        """The values to count by themselves; the others are added up."""
        values = counted.field("values")
        keep = pc.is_in(values, value_set=self._kept)
        if len(self.counts) < 2 * limit:
            keep = pc.or_(keep, self._remarkable(values))
        self.others += pc.sum(counted.field("counts").filter(pc.invert(keep))).as_py() or 0
        return counted.filter(keep)

    def _remarkable(self, values: pa.StringArray) -> pa.BooleanArray:
        markers = pc.is_in(values, value_set=pa.array(NULL_MARKERS | IN_NUMBERS, pa.string()))
        if not self._are_numbers:
            return markers
        plain = pc.match_substring_regex(values, _NUMBER)
        fractions = pc.and_not(plain, pc.match_substring_regex(values, _WHOLE))
        new = pc.or_(pc.invert(plain), self._beyond(values, plain))
        if self._are_whole and pc.any(fractions).as_py():
            self._are_whole = False
            return pc.or_(new, fractions)
        return new

    def _beyond(self, values: pa.StringArray, plain: pa.BooleanArray) -> pa.BooleanArray:
        """Which values are the smallest or the largest so far."""
        numbers = pc.if_else(plain, values, pa.scalar(None, pa.string())).cast(pa.float64())
        least, most = pc.min_max(numbers).values()
        less, more = pc.less_equal(least, self._least).as_py(), pc.greater_equal(most, self._most).as_py()
        self._least = least.as_py() if less else self._least
        self._most = most.as_py() if more else self._most
        is_least = pc.and_(pc.equal(numbers, least), pa.scalar(bool(less)))
        is_most = pc.and_(pc.equal(numbers, most), pa.scalar(bool(more)))
        return pc.or_(is_least, is_most).fill_null(False)
