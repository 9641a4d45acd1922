"""Whether the accumulators of a dataset are those of its statistics, so that others can be added to them."""

import pathlib
from collections.abc import Iterator

from beam_jobs.verification.files import Problem
from pipeline.data import ordinary_files
from pipeline.data.dataset import statistics as statistics_lib
from pipeline.data.dataset.manifest import STATISTICS_FILE_NAME, Manifest
from pipeline.data.dataset.statistics import Statistics
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import accumulator_file
from pipeline.data.statistics.accumulator_file import FILE_NAME
from pipeline.data.statistics.cursor import DamagedError


def accumulator_problems(
    directory: pathlib.Path, manifest: Manifest, schema: Schema, statistics: Statistics
) -> Iterator[Problem]:
    """None where an earlier version wrote the dataset, without accumulators."""
    if FILE_NAME not in manifest.digests_of_files:
        return
    try:
        splits = accumulator_file.loads(ordinary_files.read_bytes(directory / FILE_NAME), schema)
        found = {name: accumulator_file.statistics_of(content, schema) for name, content in splits.items()}
    except OSError:
        return  # that it is not there is told already
    except DamagedError as error:
        yield Problem(file=FILE_NAME, problem=str(error))
        return
    # As bytes: what the file does not hold of a measure is no difference.
    if statistics and statistics_lib.dumps(found) != statistics_lib.dumps(statistics):
        yield Problem(file=FILE_NAME, problem=f"gives other statistics than {STATISTICS_FILE_NAME}")
