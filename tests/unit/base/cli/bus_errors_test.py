"""A mapped shard that shrinks ends a command in one line that names it, and with exit code 2."""

import dataclasses
import os
import pathlib
import subprocess
import sys

import numpy as np

from pipeline.base import files
from pipeline.data.dataset import manifest, shards
from pipeline.data.dataset.manifest import Dataset
from tests.shared.tiny_dataset import write_dataset
from tests.unit.data.reading.id_stream import SCHEMA

# Reads mapped rows for ever, as training does.
READS = """
import faulthandler
import sys
from pipeline.base.cli import signals
signals.handle_signals()
faulthandler.enable()  # as commands do
from pipeline.data.dataset.manifest import open_dataset
from pipeline.data.dataset.selection import select
from pipeline.data.integrity.damage import naming_damage
from pipeline.data.reading import stream
from pipeline.data.reading.sharding import Share
from pipeline.data.reading.plan import plan_reading
selection = select(open_dataset(sys.argv[1]), "train")
plan = plan_reading(selection, share=Share(global_batch=512), seed=1)
with naming_damage(selection):
    for number, _ in enumerate(stream.read(plan)):
        if number == 1:
            print("reads", flush=True)
"""


BLOCKS = 6_000  # 40 MB: TensorFlow copies files of a few


def large_blocks(directory: pathlib.Path) -> Dataset:
    """One shard that holds the same block again and again."""
    rows = [{"id": i, "y": i % 2} for i in range(1024)]
    dataset = write_dataset(directory, SCHEMA, {"train": rows}, shards=1, layout="blocks")
    (shard,) = dataset.shards("train")
    name, block = shards.file_name(shard.path), (directory / shard.path).read_bytes()
    (directory / shard.path).write_bytes(block * BLOCKS)
    one = shards.load(directory / name)
    many = shards.Index(
        offsets=np.arange(BLOCKS) * len(block),
        lengths=np.repeat(one.lengths, BLOCKS),
        hashes=np.repeat(one.hashes, BLOCKS),
    )
    (directory / name).write_bytes(shards.dumps(many))
    files = [dataclasses.replace(file, **stored(directory / file.path)) for file in dataset.manifest.files]
    larger = dataclasses.replace(shard, records=BLOCKS, rows=BLOCKS * 1024, **stored(directory / shard.path))
    changed = dataclasses.replace(dataset.manifest, files=tuple(files), splits={"train": (larger,)})
    (directory / manifest.FILE_NAME).write_text(manifest.dumps(changed))
    return manifest.open_dataset(directory)


def stored(path: pathlib.Path) -> dict:
    return {"bytes": path.stat().st_size, "sha256": files.sha256(path)}


def test_a_shard_that_is_truncated_while_it_is_mapped_is_named(tmp_path):
    dataset = large_blocks(tmp_path / "ids")
    (path,) = dataset.shard_paths("train")
    command = [sys.executable, "-c", READS, str(dataset.directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "reads\n"
        os.truncate(path, 100)
        _, stderr = process.communicate()
    assert process.returncode == 2
    lines = [line for line in stderr.splitlines() if line.startswith(("error", "Fatal"))]
    assert len(lines) == 1
    assert lines[0].startswith(f"error: dataset file {path}: received 100 bytes; expected ")
