"""The end of a job's graph: the workers save its outcome in one small file, which the launcher loads."""

from collections.abc import Mapping, Sequence

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems

from beam_jobs.launch import outcome_json
from beam_jobs.launch.outcome import Outcome, Outputs, WrittenFile
from beam_jobs.sources.pieces import rejections
from beam_jobs.sources.pieces.rejections import Rejected

_UNCOMPRESSED = "uncompressed"


def gather(pipeline: beam.Pipeline, outputs: Outputs, path: str) -> None:
    """Adds the end of the graph: writes the `Outcome` to `path`."""
    rejected = (
        outputs.rejected
        | "AllRejected" >> beam.Flatten()
        | "Rejected" >> beam.CombineGlobally(rejections.CollectRejected()).without_defaults()
    )
    read = outputs.read | "RowsRead" >> beam.CombineGlobally(sum).without_defaults()
    statistics = outputs.statistics
    _ = (
        pipeline
        | "Outcome" >> beam.Create([path])
        | "Save"
        >> beam.Map(
            _save,
            rows_read=beam.pvalue.AsSingleton(read, default_value=0),
            rejected=beam.pvalue.AsSingleton(rejected, default_value=rejections.NOTHING),
            files=beam.pvalue.AsList(outputs.files),
            lines={} if outputs.lines is None else beam.pvalue.AsDict(outputs.lines),
            statistics={} if statistics is None else beam.pvalue.AsDict(statistics),
        )
    )


def load(path: str, *, file_type: type[WrittenFile]) -> Outcome:
    """Raises InputError where its files are none of the directory that `path` is in."""
    with FileSystems.open(path, compression_type=_UNCOMPRESSED) as file:
        return outcome_json.loads(file.read(), file_type=file_type, directory=FileSystems.split(path)[0])


def _save(
    path: str,
    *,
    rows_read: int,
    rejected: Rejected,
    files: Sequence[WrittenFile],
    lines: Mapping[str, int],
    statistics: Mapping[str, bytes],
) -> None:
    outcome = outcome_json.dumps(
        rows_read=rows_read,
        rejected=rejected,
        files=sorted(files, key=lambda file: file.file_name),
        lines=dict(sorted(lines.items())),
        statistics=statistics,
    )
    with FileSystems.create(path, compression_type=_UNCOMPRESSED) as file:
        file.write(outcome)
