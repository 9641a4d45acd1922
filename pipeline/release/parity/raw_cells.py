"""The cells of rows as they stand in the raw files, of CSV and JSON Lines.

A dataset knows the file and line of each row (pipeline/data/dataset/origins), and its schema how CSV files
are read. What cannot be found again is left out: another format, a file that is gone or was changed since.
"""

import csv
import io
import json
import pathlib
from collections.abc import Mapping, Sequence

from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.origins import raw_text
from pipeline.data.dataset.origins.files import ANY_LINE_END, Entry
from pipeline.data.dataset.origins.raw_rows import RawRow, raw_rows

Cells = Mapping[str, str]  # by column
_UTF_8 = ("", "utf-8", "utf8", "utf-8-sig", "ascii")


class RawCells:
    """Finds the cells of a dataset's rows again."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        told = dataset.schema.raw_files
        self._is_readable = str(told.get("encoding", "")).lower() in _UTF_8
        self._delimiter = {"\\t": "\t"}.get(str(told.get("delimiter")), str(told.get("delimiter") or ","))
        names = told.get("column_names") or ()
        self._names = tuple(names.split(",") if isinstance(names, str) else names)
        self._has_header = told.get("header", "yes") == "yes" and not self._names
        self._headers: dict[str, Sequence[str]] = {}

    def of(self, places: Sequence[tuple[str, int]]) -> list[Cells | None]:
        """Of each row, a shard as the manifest calls it and a number there; None where it is not found."""
        if not self._is_readable or not places:
            return [None] * len(places)
        return [self._cells(raw) if raw else None for raw in raw_rows(self._dataset, places)]

    def _cells(self, raw: RawRow) -> Cells | None:
        if raw.text is None:
            return None
        if raw.text.lstrip().startswith("{"):
            return _of_json(raw.text)
        cells = self._split(raw.text)
        names = self._names_for(raw, len(cells))
        return dict(zip(names, cells, strict=True)) if len(names) == len(cells) else None

    def _split(self, text: str) -> list[str]:
        try:
            return next(csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter), [])
        except csv.Error:
            return []

    def _names_for(self, raw: RawRow, cells: int) -> Sequence[str]:
        if self._names:
            return self._names
        if not self._has_header:
            return [f"column_{number}" for number in range(1, cells + 1)]
        path = raw.folder + raw.origin.file
        if path not in self._headers:
            self._headers[path] = self._header(pathlib.Path(path))
        return self._headers[path]

    def _header(self, path: pathlib.Path) -> Sequence[str]:
        """The first line's cells; none where the file cannot be read."""
        if not path.is_file():
            return ()
        whole = Entry(name=path.name, file_bytes=path.stat().st_size)
        first = raw_text.rows(path, whole, [1], ANY_LINE_END).get(1, "")
        return self._split(first.removeprefix("\ufeff"))


def _of_json(text: str) -> Cells | None:
    """The scalars of an object, as CSV would spell them; null is empty."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    scalars = {name: value for name, value in document.items() if not isinstance(value, dict | list | bool)}
    return {name: _spelled(value) for name, value in scalars.items()}


def _spelled(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
