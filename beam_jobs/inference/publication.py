"""Makes a directory of predictions out of a finished run: `_predictions.json` is written last."""

import json
from collections.abc import Sequence

from beam_jobs.launch.outcome import Outcome
from beam_jobs.publication import file_names
from beam_jobs.publication.destination import Destination
from beam_jobs.sources.pieces import rejections
from pipeline.data.errors import InputError

FORMAT = "penstock.predictions/1"


def check_reconciled(outcome: Outcome) -> None:
    """Raises InputError unless every row read was predicted or rejected, once."""
    read, predicted, rejected = outcome.rows_read, outcome.rows_written, outcome.rejected.rows
    if read != predicted + rejected or len({file.file_name for file in outcome.files}) != len(outcome.files):
        raise InputError(
            "the rows that came out of the run",
            received=f"{predicted:,} predicted, {rejected:,} rejected",
            expected=f"{read:,} rows in all",
            action="The runner lost or repeated rows; nothing was published. Use --runner=FnApiRunner.",
        )


def check_not_empty(outcome: Outcome) -> None:
    """Raises InputError unless at least one row was predicted."""
    if not outcome.rows_written:
        raise InputError(
            "the input as a whole",
            received=f"{outcome.rows_read:,} rows, none of which a prediction can be made for",
            expected="at least one",
            action="Check the files and --format.",
        )


def publish(
    destination: Destination, *, outcome: Outcome, model_digest: str, keys: Sequence[str]
) -> dict[str, object]:
    """Moves the files to their names and describes them; gives the description."""
    for file in outcome.files:
        destination.move(file.path, file.file_name)
    rejections.save(outcome.rejected, destination.directory / file_names.REJECTED_OF_PREDICTIONS)
    document = _description(outcome, model_digest, keys)
    destination.commit(file_names.PREDICTIONS, json.dumps(document, indent=2) + "\n")
    return document


def _description(outcome: Outcome, model_digest: str, keys: Sequence[str]) -> dict[str, object]:
    with_values = {key for file in outcome.files for key in file.keys_with_values}
    return {
        "format": FORMAT,
        "model_digest": model_digest,
        "rows_read": outcome.rows_read,
        "rows_predicted": outcome.rows_written,
        "rows_rejected": outcome.rejected.rows,
        "rejected_reasons": outcome.rejected.reasons,
        "keys_without_values": [key for key in keys if key not in with_values],
        "files": [
            {"path": file.file_name, "rows": file.rows, "bytes": file.bytes, "sha256": file.sha256}
            for file in outcome.files
        ],
    }
