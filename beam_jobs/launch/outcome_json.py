"""The outcome of a job as JSON: it lies where the workers write, so that nothing in it may be code.

Numbers come back bit for bit: Python writes a float with as many digits as it needs. Statistics may list
millions of values. So they are written once, and go into the outcome as the text that a worker sent.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence

from beam_jobs.launch.outcome import Outcome, WrittenFile
from beam_jobs.sources.pieces.rejections import Rejected, Rejection
from pipeline.data.dataset.statistics import FeatureStatistics, NumericSummary, SplitStatistics, ValueCounts
from pipeline.data.errors import InputError


def dumps(
    *,
    rows_read: int,
    rejected: Rejected,
    files: Sequence[WrittenFile],
    statistics: Mapping[str, bytes],
    lines: Mapping[str, int],
) -> bytes:
    """An `Outcome`; the statistics of each split are `sealed`."""
    document = {
        "rows_read": rows_read,
        "rejected": rejected,
        "files": files,
        "lines": lines,
        "statistics": {split: measured.decode() for split, measured in statistics.items()},
    }
    return json.dumps(document, default=_fields).encode()


def loads(data: bytes, *, file_type: type[WrittenFile], directory: str) -> Outcome:
    """The inverse of `dumps`; raises InputError unless its files are in `directory`."""
    document = json.loads(data)
    outcome = Outcome(
        rows_read=document["rows_read"],
        rejected=_rejected(document["rejected"]),
        files=tuple(file_type(**file) for file in document["files"]),
        lines=document["lines"],
        statistics={split: _split(json.loads(found)) for split, found in document["statistics"].items()},
    )
    for file in outcome.files:
        _check_inside(file, directory)
    return outcome


def sealed(statistics: SplitStatistics) -> bytes:
    return json.dumps(statistics, default=_fields).encode()


def _fields(value: object) -> Mapping[str, object]:
    """Those of a dataclass. `dataclasses.asdict` would copy every value that was counted."""
    if isinstance(value, ValueCounts):  # two long lists are read faster than many short ones
        pairs = {"values": [one for one, _ in value.values], "counts": [count for _, count in value.values]}
        return {**vars(value), **pairs}
    return vars(value)


def _split(document: Mapping) -> SplitStatistics:
    features = {name: _feature(feature) for name, feature in document["features"].items()}
    return SplitStatistics(examples=document["examples"], features=features)


def _feature(document: Mapping) -> FeatureStatistics:
    numeric, values = document["numeric"], document["values"]
    return FeatureStatistics(
        **{
            **document,
            "numeric": numeric and NumericSummary(**_with_tuples(numeric)),
            "values": values and _counts(**values),
        }
    )


def _counts(values: Sequence[str], counts: Sequence[int], **others: object) -> ValueCounts:
    return ValueCounts(values=tuple(zip(values, counts, strict=True)), **others)


def _with_tuples(document: Mapping) -> dict[str, object]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in document.items()}


def _rejected(document: Mapping) -> Rejected:
    listed = tuple(Rejection(**row) for row in document["listed"])
    return Rejected(reasons=document["reasons"], listed=listed)


def _check_inside(file: WrittenFile, directory: str) -> None:
    inside = directory.rstrip("/") + "/"
    paths = [path for name, path in dataclasses.asdict(file).items() if name.endswith("path")]
    is_inside = all(path.startswith(inside) and "/../" not in path for path in paths)
    if not is_inside or "/" in file.file_name:
        raise InputError(
            f"the outcome of the run, in {directory}",
            received=f"a file {file.path} to publish as {file.file_name}",
            expected="files that the workers of this run wrote",
            action="Nothing was published. Somebody else writes there: choose another directory.",
        )
