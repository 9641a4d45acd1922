"""The outcome of a job as JSON: it lies where the workers write, so that nothing in it may be code.

What was gathered of each split goes into it as the bytes that a worker sent, in base64.
"""

import base64
import dataclasses
import json
from collections.abc import Mapping, Sequence

from beam_jobs.launch.outcome import Outcome, WrittenFile
from beam_jobs.sources.pieces.rejections import Rejected, Rejection
from pipeline.data.errors import InputError


def dumps(
    *,
    rows_read: int,
    rejected: Rejected,
    files: Sequence[WrittenFile],
    statistics: Mapping[str, bytes],
    lines: Mapping[str, int],
) -> bytes:
    """An `Outcome`."""
    document = {
        "rows_read": rows_read,
        "rejected": rejected,
        "files": files,
        "lines": lines,
        "statistics": {split: base64.b64encode(one).decode() for split, one in statistics.items()},
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
        statistics={split: base64.b64decode(one) for split, one in document["statistics"].items()},
    )
    for file in outcome.files:
        _check_inside(file, directory)
    return outcome


def _fields(value: object) -> Mapping[str, object]:
    """Those of a dataclass."""
    return vars(value)


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
