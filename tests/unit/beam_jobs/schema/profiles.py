"""Profiles of columns, written down as values."""

from beam_jobs.schema.profiles import ColumnProfile


def profile(*values: object, name: str = "c") -> ColumnProfile:
    """The profile of a column of these cells."""
    cells = [str(value) for value in values]
    return ColumnProfile(name=name, counts={cell: cells.count(cell) for cell in cells})
