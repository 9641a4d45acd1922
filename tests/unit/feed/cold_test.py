"""What is measured cold is read from the disk."""

import pathlib

import pytest
import tensorflow as tf

from pipeline.feed import measure
from pipeline.feed.measure import Cold

RECORDS, BYTES = 64, 32 << 10
IO = pathlib.Path("/proc/self/io")


def read_from_disk() -> int:
    """Bytes that this process has had storage read so far."""
    return int(dict(line.split(": ") for line in IO.read_text().splitlines())["read_bytes"])


@pytest.fixture
def path(tmp_path: pathlib.Path) -> str:
    file = str(tmp_path / "data.tfrecord")
    with tf.io.TFRecordWriter(file) as writer:
        for _ in range(RECORDS):
            writer.write(bytes(BYTES))
    measure.evict([file])
    if measure.residency([file]).resident or not IO.exists():
        pytest.skip("files in memory cannot be evicted")
    return file


def test_each_pass_reads_the_files_from_the_disk_once(path):
    dataset = tf.data.TFRecordDataset(path).repeat().map(lambda record: (record,))
    before = read_from_disk()
    speed = measure.measure_uncached(
        dataset,
        Cold(paths=[path], examples=RECORDS),
        examples=1,
        seconds=1e6,
        consume=lambda *element: element,
    )
    read = read_from_disk() - before
    assert speed.examples_per_s > 0
    assert 4 * RECORDS * BYTES <= read < 6 * RECORDS * BYTES  # four passes, and what is read ahead
