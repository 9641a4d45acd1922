"""Makes a directory of predictions out of a finished run: `predictions.json` is written last."""

import dataclasses
import json
import os
import pathlib
import pickle
from collections.abc import Sequence

from apache_beam.io.filesystems import FileSystems

from beam_jobs import rejected as rejected_lib
from beam_jobs.inference.tables import WrittenFile
from beam_jobs.rejected import Rejected
from pipeline.data import manifest
from pipeline.data.errors import InputError

FORMAT = "penstock.predictions/1"
FILE_NAME = "predictions.json"
OUTCOME_FILE_NAME = "outcome"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the workers tell the launcher at the end."""

    rows_read: int
    rejected: Rejected
    files: Sequence[WrittenFile]

    @property
    def rows_predicted(self) -> int:
        return sum(file.rows for file in self.files)


def save_outcome(path: str, *, rows_read: int, rejected: Rejected, files: Sequence[WrittenFile]) -> None:
    in_order = sorted(files, key=lambda file: file.file_name)
    outcome = Outcome(rows_read=rows_read, rejected=rejected, files=tuple(in_order))
    with FileSystems.create(path, compression_type="uncompressed") as file:
        file.write(pickle.dumps(outcome))


def load_outcome(path: pathlib.Path) -> Outcome:
    return pickle.loads(path.read_bytes())


def check_reconciled(outcome: Outcome) -> None:
    """Raises InputError unless every row read was predicted or rejected, once, and one at least predicted."""
    read, predicted, rejected = outcome.rows_read, outcome.rows_predicted, outcome.rejected.rows
    if read != predicted + rejected or len({file.file_name for file in outcome.files}) != len(outcome.files):
        raise InputError(
            "the rows that came out of the run",
            received=f"{predicted:,} predicted, {rejected:,} rejected",
            expected=f"{read:,} rows in all",
            action="The runner lost or repeated rows; nothing was published. Use --runner=FnApiRunner.",
        )
    if not predicted:
        raise InputError(
            "the input as a whole",
            received=f"{read:,} rows, none of which a prediction can be made for",
            expected="at least one",
            action="Check the files and --format.",
        )


def publish(
    output: pathlib.Path, temporary: pathlib.Path, *, outcome: Outcome, model_digest: str
) -> dict[str, object]:
    """Moves the files into place and describes them; gives the description."""
    for file in outcome.files:
        pathlib.Path(file.path).replace(output / file.file_name)
    rejected = output / manifest.REJECTED_FILE_NAME
    rejected.parent.mkdir()
    rejected.write_text(rejected_lib.dumps(outcome.rejected))
    document = _description(outcome, model_digest)
    draft = temporary / FILE_NAME
    draft.write_text(json.dumps(document, indent=2) + "\n")
    # Everything must be on the disk before the name that vouches for it is.
    for path in (*(output / file.file_name for file in outcome.files), rejected, draft):
        with path.open("rb") as file:
            os.fsync(file.fileno())
    draft.replace(output / FILE_NAME)
    return document


def _description(outcome: Outcome, model_digest: str) -> dict[str, object]:
    return {
        "format": FORMAT,
        "model_digest": model_digest,
        "rows_read": outcome.rows_read,
        "rows_predicted": outcome.rows_predicted,
        "rows_rejected": outcome.rejected.rows,
        "rejected_reasons": outcome.rejected.reasons,
        "files": [
            {"path": file.file_name, "rows": file.rows, "bytes": file.bytes, "sha256": file.sha256}
            for file in outcome.files
        ],
    }
