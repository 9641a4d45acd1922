"""The job of `predict`: its graph, and what has to hold before predictions are published."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import ClassVar

import apache_beam as beam
from apache_beam.ml.inference.base import RunInference

from beam_jobs.inference import publication
from beam_jobs.inference.batches import MakeBatches, reading_schema
from beam_jobs.inference.model import ExportedModel
from beam_jobs.inference.tables import PredictionsFile, WritePredictions, check_keys
from beam_jobs.launch.outcome import LINES, READ, REJECTED, Outcome, Outputs, WrittenFile
from beam_jobs.launch.progress import Progress
from beam_jobs.launch.run import Run
from beam_jobs.publication.destination import Destination
from beam_jobs.sources.pieces.source import Piece, Source
from pipeline.data.dataset import export_manifest
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.schema import Schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prediction:
    """What is predicted, from what, into what. Implements `launch.run.Job`."""

    source: Source
    pieces: Sequence[Piece]
    model: pathlib.Path
    model_digest: str
    schema: Schema  # the model's
    keys: tuple[str, ...]  # columns of the input that are carried through
    batch: int  # rows in one call of the model, at most
    file_format: str
    run: Run

    doing: ClassVar[str] = "predicting"
    file_type: ClassVar[type[WrittenFile]] = PredictionsFile

    def build(self, pipeline: beam.Pipeline, *, directory: str, progress: Progress) -> Outputs:
        """Pieces → batches of examples → the model's answers → a file of predictions for each piece."""
        reading = reading_schema(self.schema, self.keys)
        read = MakeBatches(self.source, reading, rows=self.batch, progress=progress)
        write = WritePredictions(
            self.schema.label,
            keys=self.keys,
            file_format=self.file_format,
            pieces=len(self.pieces),
            directory=directory,
            progress=progress,
        )
        made = (
            pipeline
            | "Pieces" >> beam.Create(list(enumerate(self.pieces)))
            | "Spread" >> beam.Reshuffle()
            | "Read" >> beam.ParDo(read).with_outputs(READ, REJECTED, LINES, main="batches")
        )
        written = (
            made.batches
            | "Predict" >> RunInference(ExportedModel(str(self.model)))
            | "OfPiece" >> beam.Map(lambda predicted: (predicted.piece, predicted))
            | "Together" >> beam.GroupByKey()
            | "Write" >> beam.ParDo(write)
        )
        return Outputs(read=made[READ], rejected=(made[REJECTED],), files=written, lines=made[LINES])

    def check_reconciled(self, outcome: Outcome) -> None:
        publication.check_reconciled(outcome)

    def publish(self, outcome: Outcome, destination: Destination) -> dict[str, object]:
        publication.check_not_empty(outcome)
        return publication.publish(
            destination, outcome=outcome, model_digest=self.model_digest, keys=self.keys
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Exported:
    """A model that `python -m pipeline.export` wrote."""

    directory: pathlib.Path
    digest: str
    schema: Schema


def open_export(directory: pathlib.Path) -> Exported:
    """The model in `directory`; raises InputError unless it is as exported."""
    digest = export_manifest.open_export(directory)["digest"]
    schema = schema_lib.load(directory / schema_lib.FILE_NAME)
    return Exported(directory=directory, digest=digest, schema=schema)


def prediction(
    source: Source,
    pieces: Sequence[Piece],
    *,
    exported: Exported,
    keys: Sequence[str] = (),
    batch: int,
    file_format: str,
    run: Run,
) -> Prediction:
    """The job with the model that was exported; raises InputError where `keys` cannot be carried through."""
    check_keys(keys, exported.schema.label)
    return Prediction(
        source=source,
        pieces=pieces,
        model=exported.directory,
        model_digest=exported.digest,
        schema=exported.schema,
        keys=tuple(keys),
        batch=batch,
        file_format=file_format,
        run=run,
    )
