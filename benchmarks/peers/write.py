r"""The benchmark's data in the formats of others, each as its own writer makes it.

python -m benchmarks.peers.write WORKLOAD DIRECTORY, after `reading.data.prepare`:

  arrayrecord/   one record an example, uncompressed: what grain reads with least CPU
  mds/           MosaicML streaming (tabular, tokens)
  webdataset/    tar files (images)
"""

import io
import itertools
import pathlib
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator

import numpy as np
from array_record.python.array_record_module import ArrayRecordWriter
from streaming import MDSWriter

from benchmarks.reading.shapes import COLUMNS, ROW_TOKENS

_SHARDS = 16
_MDS_SHARD_BYTES = 16 << 20  # 16 MiB
_MDS_COLUMN = {"tabular": f"ndarray:int32:{COLUMNS}", "tokens": f"ndarray:uint16:{ROW_TOKENS}"}
_READY = "ready"


def write(workload: str, directory: pathlib.Path) -> None:
    """Writes what is not there yet."""
    formats: dict[str, Callable] = {"arrayrecord": _array_record}
    formats |= {"webdataset": _tar} if workload == "images" else {"mds": _mds}
    for name, writer in formats.items():
        if (directory / name / _READY).exists():
            continue
        shutil.rmtree(directory / name, ignore_errors=True)
        (directory / name).mkdir()
        writer(workload, directory, directory / name)
        (directory / name / _READY).touch()


def _array_record(workload: str, directory: pathlib.Path, output: pathlib.Path) -> None:
    for shard, records in enumerate(_shards(_records(workload, directory))):
        writer = ArrayRecordWriter(str(output / f"{shard:05d}.arrayrecord"), "group_size:1,uncompressed")
        for record in records:
            writer.write(record)
        writer.close()


def _mds(workload: str, directory: pathlib.Path, output: pathlib.Path) -> None:
    rows = np.load(directory / "rows.npy", mmap_mode="r")
    columns = {"row": _MDS_COLUMN[workload]}
    with MDSWriter(out=str(output), columns=columns, size_limit=_MDS_SHARD_BYTES) as writer:
        for row in rows:
            writer.write({"row": np.array(row)})


def _tar(workload: str, directory: pathlib.Path, output: pathlib.Path) -> None:
    del workload
    for shard, images in enumerate(_shards(list(enumerate(_images(directory))))):
        with tarfile.open(output / f"{shard:05d}.tar", "w") as file:
            for label, jpeg in images:
                _add(file, f"{label:05d}.jpg", jpeg)
                _add(file, f"{label:05d}.cls", str(label).encode())


def _add(file: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    file.addfile(member, io.BytesIO(content))


def _records(workload: str, directory: pathlib.Path) -> list[bytes]:
    if workload == "images":
        return [label.to_bytes(4, "little") + jpeg for label, jpeg in enumerate(_images(directory))]
    return [row.tobytes() for row in np.load(directory / "rows.npy")]


def _images(directory: pathlib.Path) -> Iterator[bytes]:
    content, offsets = (directory / "images.bin").read_bytes(), np.load(directory / "offsets.npy")
    return (content[start:end] for start, end in itertools.pairwise(offsets))


def _shards(examples: list) -> Iterator[list]:
    edges = np.linspace(0, len(examples), _SHARDS + 1).astype(int)
    return (examples[start:end] for start, end in itertools.pairwise(edges))


if __name__ == "__main__":
    write(sys.argv[1], pathlib.Path(sys.argv[2]))
