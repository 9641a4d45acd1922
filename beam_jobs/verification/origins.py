"""The raw rows of what is found in a dataset, where it knows them."""

import contextlib
import pathlib
from collections.abc import Iterator

from beam_jobs.verification.files import Problem
from pipeline.data.dataset import blocks
from pipeline.data.dataset.manifest import Manifest
from pipeline.data.dataset.origins import reader
from pipeline.data.errors import InputError
from pipeline.data.schema.schema import Schema


class RowOrigins:
    """Origins by record; none where the dataset has none, or where they are damaged."""

    def __init__(self, directory: pathlib.Path, manifest: Manifest, schema: Schema) -> None:
        self._origins = None
        self._rows_in_record = blocks.geometry(schema).rows if manifest.layout == "blocks" else 1
        with contextlib.suppress(InputError):
            self._origins = reader.open_origins(directory, manifest)

    def of(self, shard: str, record: int, row: int = 0) -> str | None:
        """File and number of the raw row; `row` is that in the record."""
        if self._origins is None:
            return None
        with contextlib.suppress(InputError, IndexError):  # a damaged shard may seem to have more rows
            origin = self._origins.of(shard, record * self._rows_in_record + row)
            return None if origin is None else str(origin)
        return None


def problems(directory: pathlib.Path, manifest: Manifest) -> Iterator[Problem]:
    """Files of origins that are damaged, or missing among others."""
    for name, problem in reader.damage(directory, manifest):
        yield Problem(file=name, problem=problem)
