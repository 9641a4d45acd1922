"""One sound file of every raw format, plain and compressed: what mutations start from."""

import bz2
import functools
import gzip
import io
import json
import pathlib
import random
from collections.abc import Callable, Mapping

import fastavro
import pyarrow as pa
import pyarrow.parquet

from beam_jobs.sources.files import COMPRESSION
from pipeline.data.dataset import tfrecord
from pipeline.data.dataset.tfrecord import entry_head, example_head
from tests.shared.pictures import encode, noise

ROWS = 60


def _rows() -> list[dict]:
    draws = random.Random(0)
    return [
        {"age": draws.randint(18, 80), "city": draws.choice(["Bern", "Genf"]), "bought": draws.choice("yn")}
        for _ in range(ROWS)
    ]


def _csv() -> bytes:
    lines = [f'{row["age"]},"{row["city"]}",{row["bought"]}' for row in _rows()]
    return "\n".join(["age,city,bought", *lines, ""]).encode()


def _jsonl() -> bytes:
    nested = ({**row, "home": {"city": row["city"]}, "scores": [1, 2.5]} for row in _rows())
    return "".join(json.dumps(row) + "\n" for row in nested).encode()


def _parquet() -> bytes:
    file = io.BytesIO()
    pa.parquet.write_table(pa.Table.from_pylist(_rows()), file, row_group_size=20)
    return file.getvalue()


def _avro() -> bytes:
    types = {"age": "long", "city": "string", "bought": "string"}
    fields = [{"name": name, "type": type_} for name, type_ in types.items()]
    file = io.BytesIO()
    fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, _rows(), sync_interval=300)
    return file.getvalue()


def _entry(name: str, wire: str, payload: bytes) -> bytes:
    return entry_head(name.encode(), wire, len(payload)) + payload


def _example(row: Mapping) -> bytes:
    texts = (_entry(name, "bytes", row[name].encode()) for name in ("city", "bought"))
    entries = b"".join([_entry("age", "int64", bytes([row["age"]])), *texts])
    return example_head(len(entries)) + entries


def _tfrecord() -> bytes:
    return tfrecord.frame([_example(row) for row in _rows()])


def _text() -> bytes:
    return "\n".join(f"line {number} für 3 €" for number in range(ROWS)).encode()


def picture(number: int, ending: str) -> bytes:
    """A small image file; its number decides on its pixels."""
    file_format = {"jpg": "JPEG"}.get(ending, ending.upper())
    return encode(noise(14, 18, 3, seed=number), file_format)


FORMATS: Mapping[str, Callable[[], bytes]] = {
    "csv": _csv,
    "jsonl": _jsonl,
    "parquet": _parquet,
    "avro": _avro,
    "tfrecord": _tfrecord,
    "txt": _text,
}
PICTURES = ("png", "jpg", "gif", "bmp", "webp")


def _zstd(data: bytes) -> bytes:
    return pa.compress(data, "zstd", asbytes=True)


_PACK = {".gz": functools.partial(gzip.compress, mtime=0), ".bz2": bz2.compress, ".zst": _zstd}

# Names of files, each a format and a compression that can be read.
FILES = tuple(
    f"data.{ending}{compression}"
    for ending in FORMATS
    for compression in ("", *({"tfrecord": (".gz",), "parquet": (), "avro": ()}.get(ending, COMPRESSION)))
)


def content(name: str) -> bytes:
    """The sound file of this name, one of FILES."""
    _, ending, *compression = name.split(".")
    data = FORMATS[ending]()
    return _PACK[f".{compression[0]}"](data) if compression else data


def write_pictures(folder: pathlib.Path) -> None:
    """Twelve images in two folders of classes, below `folder`/pictures."""
    for number in range(12):
        ending = PICTURES[number % 2]
        place = folder / "pictures" / ("cat", "dog")[number // 2 % 2]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.{ending}").write_bytes(picture(number, ending))
