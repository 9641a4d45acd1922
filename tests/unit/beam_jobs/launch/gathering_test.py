"""What the workers tell the launcher does not depend on which of them was first."""

import pathlib

import apache_beam as beam

from beam_jobs.launch import run
from beam_jobs.launch.outcome import Outputs, WrittenFile


def test_files_stand_in_the_order_of_their_names(tmp_path: pathlib.Path):
    files = [
        WrittenFile(path=str(tmp_path / name), file_name=name, rows=1, bytes=1, sha256="") for name in "bca"
    ]
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        outputs = Outputs(
            read=pipeline | "Read" >> beam.Create([1, 2]),
            rejected=(pipeline | "Rejections" >> beam.Create([]),),
            files=pipeline | "Files" >> beam.Create(files),
        )
        run.gather(pipeline, outputs, str(tmp_path / "outcome"))
    found = run.load_gathered(str(tmp_path / "outcome"), file_type=WrittenFile)
    assert [file.file_name for file in found.files] == ["a", "b", "c"]
    assert (found.rows_read, found.rows_written, found.rejected.rows) == (3, 3, 0)
