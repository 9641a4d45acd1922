r"""The peak memory of tokenising one text of 100 MB: a file of its own, or a cell.

  python -m tests.beam_jobs.long_text --folder=DIR [--megabytes=100]

Prints a line for each, and fails where a process took more than 1 GB. Needs 1 GB in DIR. Duration: minutes.
"""

import multiprocessing
import os
import pathlib
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from absl import app, flags

from beam_jobs.sources.tokens import ByteTokenizer
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Tokens
from pipeline.data.schema.schema import Schema

_FOLDER = flags.DEFINE_string("folder", None, "Folder for the data.", required=True)
_MEGABYTES = flags.DEFINE_integer("megabytes", 100, "Length of the text.", 1)

_MOST = 1_000_000_000  # bytes
_LENGTH = 512
SCHEMA = Schema(
    name="corpus",
    features=(
        Tokens(name="tokens", length=_LENGTH, vocabulary_size=ByteTokenizer().size),
        Tokens(name="segments", length=_LENGTH, vocabulary_size=_LENGTH + 1),
    ),
)


_FLAGS = {"one.txt": ("--text_unit=document",), "one.parquet": ()}  # what reads each file


def write(folder: pathlib.Path, megabytes: int) -> None:
    """Writes the text in several ways."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyzäé", k=draw.randint(2, 9))) for _ in range(5000)]
    line = " ".join(draw.choices(words, k=1 << 17)) + " "
    text = line * (megabytes * 1_000_000 // len(line.encode()) + 1)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "one.txt").write_text(text)
    pq.write_table(pa.table({"text": [text]}), folder / "one.parquet")
    schema_lib.save(SCHEMA, folder / "schema.json")


def peak_bytes(folder: pathlib.Path, name: str, extra: Sequence[str]) -> int:
    """Peak memory of the largest process of converting `name`."""
    output = folder / f"{name}.dataset" / "1.0.0"
    command = [sys.executable, "-m", "beam_jobs.convert", f"--input={folder / name}", f"--output={output}"]
    tokenizing = ("--tokenizer=bytes", f"--sequence_length={_LENGTH}", f"--schema={folder / 'schema.json'}")
    started = subprocess.Popen([*command, *tokenizing, *extra])
    _, status, usage = os.wait4(started.pid, 0)
    shutil.rmtree(output.parent, ignore_errors=True)
    if status:
        sys.exit(f"{name}: convert ended with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_maxrss << 10


def main(argv: Sequence[str]) -> None:
    del argv
    folder = pathlib.Path(_FOLDER.value)
    # Linux counts what this process holds when it starts a command as memory of the command.
    writer = multiprocessing.get_context("spawn").Process(target=write, args=(folder, _MEGABYTES.value))
    writer.start()
    writer.join()
    peaks = {name: peak_bytes(folder, name, extra) for name, extra in _FLAGS.items()}
    for name, peak in peaks.items():
        print(f"{name:12} {_MEGABYTES.value} MB of text: peak {peak / 1e6:,.0f} MB")
    if max(peaks.values()) > _MOST:
        sys.exit(f"more than {_MOST / 1e6:,.0f} MB")


if __name__ == "__main__":
    app.run(main)
