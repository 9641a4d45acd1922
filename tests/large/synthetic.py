"""Made-up datasets of a billion rows, of 100,000 shards, and of large pictures.

All that is in them can be read. The shards of the billion are links to one file of a million rows.
"""

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Sequence

import numpy as np

from pipeline.data.dataset import manifest, tfrecord
from pipeline.data.dataset import shards as shards_lib
from pipeline.data.dataset.manifest import File, Shard
from pipeline.data.schema.feature_types import Image, Label
from pipeline.data.schema.schema import Schema
from tests.pipeline.data.reading.id_stream import SCHEMA
from tests.shared.tiny_dataset import serialize, write_dataset

_FIRST_ID = 1 << 14  # from there on, each id takes three bytes
_PICTURES = Schema(
    name="pictures", features=(Image(name="image", height=64, width=64), Label(name="y", classes=("a", "b")))
)


def billion(directory: pathlib.Path, *, rows_in_shard: int = 1_000_000, shards: int = 1_000) -> None:
    """A dataset of so many rows of two columns."""
    payloads = _payloads(rows_in_shard)
    _publish(directory, [payloads], copies=shards)


def many_shards(directory: pathlib.Path, *, shards: int = 100_000) -> None:
    """A dataset of four rows a shard."""
    payloads = _payloads(4 * 1000)
    _publish(directory, [payloads[4 * (n % 1000) :][:4] for n in range(shards)], copies=1)


def photographs(directory: pathlib.Path, *, count: int = 400, side: int = 1200) -> None:
    """A dataset of JPEGs of noise, which take 2 MB each."""
    import tensorflow as tf

    draw = np.random.default_rng(0)
    pictures = [draw.integers(0, 255, (side, side, 3), np.uint8) for _ in range(8)]
    encoded = [tf.io.encode_jpeg(picture, quality=95).numpy() for picture in pictures]
    rows = [{"image": encoded[number % len(encoded)], "y": number % 2} for number in range(count)]
    write_dataset(directory, _PICTURES, {"train": rows}, shards=4)


def _payloads(count: int) -> list[bytes]:
    """Serialized rows with ids of their own."""
    example = serialize(SCHEMA, {"id": _FIRST_ID, "y": 1})
    at = example.index(b"\x80\x80\x01")  # the first id, as a varint
    ids = _FIRST_ID + np.arange(count)
    varints = np.stack([ids & 0x7F | 0x80, ids >> 7 & 0x7F | 0x80, ids >> 14], axis=1).astype(np.uint8)
    rows = np.tile(np.frombuffer(example, np.uint8), (count, 1))
    rows[:, at : at + 3] = varints
    content = rows.tobytes()
    return [content[start : start + len(example)] for start in range(0, len(content), len(example))]


def _publish(directory: pathlib.Path, contents: Sequence[Sequence[bytes]], *, copies: int) -> None:
    """A dataset with a shard of each of `contents`, each under `copies` names."""
    small = write_dataset(directory, SCHEMA, {"train": [{"id": 1, "y": 1}]}, shards=1)
    kept = [file for file in small.manifest.files if not file.path.endswith(".index")]
    count, shards, files = len(contents) * copies, [], []
    for number, payloads in enumerate(contents):
        content, stored = tfrecord.frame(payloads), _index(payloads)
        digests = [hashlib.sha256(each).hexdigest() for each in (content, stored)]
        for copy in range(copies):
            name = f"ids-train.tfrecord-{number * copies + copy:06d}-of-{count:06d}"
            _write(directory / name, content, directory / shards[0].path if copy else None)
            index_name = shards_lib.file_name(name)
            _write(directory / index_name, stored, directory / files[0].path if copy else None)
            records = len(payloads)
            shard = Shard(path=name, bytes=len(content), sha256=digests[0], records=records, rows=records)
            shards.append(shard)
            files.append(File(path=index_name, bytes=len(stored), sha256=digests[1]))
    rows = sum(shard.rows for shard in shards)
    published = dataclasses.replace(
        small.manifest, splits={"train": tuple(shards)}, files=(*kept, *files), rows_read=rows
    )
    (directory / manifest.FILE_NAME).write_text(manifest.dumps(published))


def _write(path: pathlib.Path, content: bytes, same: pathlib.Path | None) -> None:
    if same:
        os.link(same, path)
    else:
        path.write_bytes(content)


def _index(payloads: Sequence[bytes]) -> bytes:
    lengths = np.fromiter(map(len, payloads), np.int64, len(payloads))
    ends = np.cumsum(lengths + tfrecord.FRAME_BYTES)
    offsets = ends - lengths - tfrecord.FRAME_BYTES
    return shards_lib.dumps(
        shards_lib.Index(offsets=offsets, lengths=lengths, hashes=shards_lib.content_hashes(payloads))
    )
