r"""Indexes TFRecord files that others wrote, so that they can be read by position.

  python -m pipeline.index data/*.tfrecord

Beside each file goes its index: where every record is, how long it is, and a hash of its content. Every
checksum is compared on the way; a file with damage gets no index, and each damaged record is named. A file
that already has an index is compared with it. --check compares all files and writes nothing. Exit code 0:
every file has its index; 2: one is damaged, compressed, or differs from its index.

Then any part of the files is read in a shuffled order, from any position on:

  import penstock
  data = penstock.index("data/*.tfrecord", schema="schema.json")
  batches = data["train[:90%]"].raw(256, seed=1, position=0)

`python -m beam_jobs.infer_schema` proposes the schema. To train on such files, to clean them, or where
they are compressed, `python -m beam_jobs.convert --format=tfrecord` makes a dataset of them.
"""

if __name__ == "__main__":  # Ctrl-C may come while the imports below run
    from pipeline.base.cli import signals

    signals.handle_signals()

import pathlib
import sys
from collections.abc import Sequence

from absl import flags

from pipeline.base import files
from pipeline.base.cli.command import Command
from pipeline.base.cli.run import run_command
from pipeline.base.errors import EXIT_BAD_INPUT, InputError
from pipeline.base.progress import Bar
from pipeline.data.dataset import shards
from pipeline.data.dataset.foreign import build
from pipeline.data.dataset.shards import Index

_CHECK = flags.DEFINE_bool("check", False, "Only compare existing indexes. Nothing is written.")


COMMAND = Command(name="pipeline.index", description=__doc__, arguments="FILE…", flags={"Flags": (_CHECK,)})


def main(argv: Sequence[str]) -> int:
    paths = [pathlib.Path(name) for name in argv[1:]]
    _check_names(paths)
    total = sum(path.stat().st_size for path in paths if path.is_file())
    bad = 0
    with Bar(total=total, unit="B", unit_scale=True, desc="indexing") as bar:
        for path in paths:
            try:
                bar.write(_index(path, build(path, on_bytes=bar.update), write=not _CHECK.value))
            except InputError as error:  # the other files are looked at all the same
                bar.write(f"error: {error}", file=sys.stderr)
                bad += 1
    return EXIT_BAD_INPUT if bad else 0


def _index(path: pathlib.Path, built: Index, *, write: bool) -> str:
    """Writes the index, unless an equal one is there; returns a line that says what it did."""
    target, content = path.with_name(shards.file_name(path.name)), shards.dumps(built)
    if target.exists():
        if target.read_bytes() != content:
            raise InputError(
                f"index {target}",
                received=f"another index than that of the {len(built):,} records in {path.name}",
                expected="the same",
                action="The file was modified since. If this was intended, delete the index and run again.",
            )
        return f"{target}: {len(built):,} records, as in the file"
    if not write:
        raise InputError(
            f"index {target}",
            received="no such file",
            expected=f"the index of {path.name}",
            action="Run the same without --check.",
        )
    files.write_bytes(target, content)
    return f"{target}: {len(built):,} records"


def _check_names(paths: Sequence[pathlib.Path]) -> None:
    indexes = [path.with_name(shards.file_name(path.name)) for path in paths]
    twice = [path for path, target in zip(paths, indexes, strict=True) if indexes.count(target) > 1]
    if twice or not paths:
        raise InputError(
            "command line",
            received=" and ".join(map(str, twice)) or "no files",
            expected="TFRecord files, each with a name of its own for its index",
            action="Rename one of them." if twice else "Write `python -m pipeline.index FILES…`.",
        )


if __name__ == "__main__":
    run_command(main, COMMAND)
