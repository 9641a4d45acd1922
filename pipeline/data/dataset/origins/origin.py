"""The origin of a row: what a person needs to find it in the raw data."""

from typing import NamedTuple


class Origin(NamedTuple):
    """A raw file, and the row there, counted from 1; None where the file is one row, such as an image.

    In CSV, JSON Lines and text, `row` is the line on which the row begins; a header and blank lines count. In
    other formats it is the number of the row or record in the file. `file` is relative to the directory that
    all inputs are in; a row of a service is told by the stream that it came in.
    """

    file: str
    row: int | None

    def __str__(self) -> str:
        return self.file if self.row is None else f"{self.file} row {self.row:,}"
