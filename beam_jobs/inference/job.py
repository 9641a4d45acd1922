"""The job of `predict`: its graph, and what has to hold before predictions are published."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import ClassVar

import apache_beam as beam
from apache_beam.ml.inference.base import RunInference

from beam_jobs.inference.batches import MakeBatches, reading_schema
from beam_jobs.inference.model import ExportedModel
from beam_jobs.inference.tables import PredictionsFile, WritePredictions, check_keys
from beam_jobs.launch import claims
from beam_jobs.launch.outcome import LINES, NOTED, READ, REJECTED, Outcome, Outputs, WrittenFile
from beam_jobs.launch.output import Destination
from beam_jobs.launch.run import Progress, Run
from beam_jobs.sources import source
from beam_jobs.sources.source import InputSplit, Source
from pipeline.base.errors import InputError
from pipeline.data.dataset import records
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.schema import Schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class Exported:
    """A model that `python -m pipeline.export` wrote."""

    directory: pathlib.Path
    digest: str
    schema: Schema


def open_export(directory: pathlib.Path) -> Exported:
    """Opens the model in `directory`; raises InputError unless it is as exported."""
    digest = records.open_export(directory)["digest"]
    schema = schema_lib.load(directory / schema_lib.FILE_NAME)
    return Exported(directory=directory, digest=digest, schema=schema)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prediction:
    """A job that predicts rows with an exported model. Implements `launch.run.Job`.

    Raises InputError where `keys` cannot be carried through.
    """

    source: Source
    input_splits: Sequence[InputSplit]
    exported: Exported
    keys: tuple[str, ...] = ()  # columns of the input that are carried through
    batch: int  # rows in one call of the model, at most
    file_format: str
    run: Run

    doing: ClassVar[str] = "predicting"
    file_type: ClassVar[type[WrittenFile]] = PredictionsFile

    def __post_init__(self) -> None:
        check_keys(self.keys, self.exported.schema.label)

    def build(self, pipeline: beam.Pipeline, *, directory: str, progress: Progress) -> Outputs:
        """Builds the graph: input splits → batches of examples → the model's answers → a file for each."""
        reading = reading_schema(self.exported.schema, self.keys)
        read = MakeBatches(source=self.source, schema=reading, rows=self.batch, progress=progress)
        write = WritePredictions(
            label=self.exported.schema.label,
            keys=self.keys,
            file_format=self.file_format,
            input_splits=len(self.input_splits),
            directory=directory,
            progress=progress,
        )
        made = (
            pipeline
            | "InputSplits" >> beam.Create(list(enumerate(self.input_splits)))
            | "Spread" >> beam.Reshuffle()
            | "Read" >> beam.ParDo(read).with_outputs(READ, REJECTED, LINES, NOTED, main="batches")
        )
        written = (
            made.batches
            | "Predict" >> RunInference(ExportedModel(str(self.exported.directory)))
            | "OfInputSplit" >> beam.Map(lambda predicted: (predicted.input_split, predicted))
            | "Together" >> beam.GroupByKey()
            | "Write" >> beam.ParDo(write)
        )
        return Outputs(
            read=made[READ],
            rejected=(made[REJECTED],),
            files=written,
            lines=made[LINES],
            noted=made[NOTED],
        )

    def check_reconciled(self, outcome: Outcome) -> None:
        check_reconciled(outcome)

    def publish(self, outcome: Outcome, destination: Destination) -> dict[str, object]:
        check_not_empty(outcome)
        return publish_predictions(
            destination, outcome=outcome, model_digest=self.exported.digest, keys=self.keys
        )


# --- Makes a directory of predictions out of a finished run: `_predictions.json` is written last.


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


def publish_predictions(
    destination: Destination, *, outcome: Outcome, model_digest: str, keys: Sequence[str]
) -> dict[str, object]:
    """Moves the files to their names and describes them; gives the description."""
    for file in outcome.files:
        destination.move(file.path, file.file_name)
    source.save_rejections(outcome.rejected, destination.directory / claims.REJECTED_OF_PREDICTIONS)
    document = description(outcome, model_digest, keys)
    destination.commit(claims.PREDICTIONS, json.dumps(document, indent=2) + "\n")
    return document


def counts(document: Mapping) -> str:
    """Formats what was read and predicted: of packed text documents, and the rows that hold them."""
    predicted = f"{document['rows_predicted']:,}"
    if "documents_read" not in document:
        return (
            f"{document['rows_read']:,} rows read, {predicted} predicted, "
            f"{document['rows_rejected']:,} rejected"
        )
    return (
        f"{document['documents_read']:,} documents read, {document['documents_predicted']:,} predicted in "
        f"{predicted} rows, {document['documents_rejected']:,} rejected"
    )


def description(outcome: Outcome, model_digest: str, keys: Sequence[str]) -> dict[str, object]:
    """The content of `_predictions.json`. Documents of packed text are read and rejected, not its rows."""
    given, what = outcome.given
    with_values = {key for file in outcome.files for key in file.keys_with_values}
    return {
        "format": FORMAT,
        "model_digest": model_digest,
        f"{what}_read": given,
        **({"documents_predicted": outcome.documents} if outcome.documents is not None else {}),
        **({"documents_cut": outcome.cut} if outcome.cut else {}),
        "rows_predicted": outcome.rows_written,
        f"{what}_rejected": outcome.rejected.rows,
        "rejected_reasons": outcome.rejected.reasons,
        **outcome.notes,
        "keys_without_values": [key for key in keys if key not in with_values],
        "files": [
            {"path": file.file_name, "rows": file.rows, "bytes": file.bytes, "sha256": file.sha256}
            for file in outcome.files
        ],
    }
