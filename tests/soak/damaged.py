"""Sound things, commands that read damaged copies of them, and what is wrong with how a command answered.

A command has to end with exit code 0 or 2, in one line, without a traceback, within 1 GB and 60 s of the
processor. Where a copy is damaged strictly, that line must name the file, or the result must be the same.
"""

import dataclasses
import functools
import json
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence

from pipeline.base.errors import EXIT_BAD_INPUT
from tests.shared import forked
from tests.shared.forked import Ended
from tests.soak import commands, samples
from tests.soak.commands import Contents

PICTURES = "pictures"  # the raw folder of images
DATASETS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "rows": ("data.csv", ()),
    "blocks": ("data.csv", ("--layout=blocks",)),
    "pictures": (PICTURES, ()),
}
_LABELS = {"data.txt": (), PICTURES: ()}
_MEMORY_MIB = 1_000_000_000 / (1 << 20)  # 1 GB
_SECONDS = 60
_GUARD_MIB = 3 << 10  # a case must not take the machine with it
_TINY = ("--config.model.hidden=4", "--config.model.embedding=2", "--config.global_batch=16")
_TINY_IMAGES = ("--config.model.widths=4", "--config.model.blocks_per_stage=1", "--config.global_batch=8")
_EXACT = ("--strategy=one_device", "--precision=float32")
Arguments = tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sound:
    """What is damaged; each is made when it is first wanted. Raises RuntimeError where that fails."""

    root: pathlib.Path

    def raw(self, name: str) -> pathlib.Path:
        """A raw file of samples.FILES, or the folder of images."""
        if not (self.root / name).exists():
            self.root.mkdir(parents=True, exist_ok=True)
            if name == PICTURES:
                samples.write_pictures(self.root)
            else:
                (self.root / name).write_bytes(samples.content(name))
        return self.root / name

    def schema(self, name: str) -> pathlib.Path:
        """The schema of a raw file."""
        path = self.root / f"{name}.json"
        if not path.exists():
            label = _LABELS.get(".".join(name.split(".")[:2]), ("--label=bought",))
            given = (f"--input={self.raw(name)}", *_source_flags(name), *label, "--name=data")
            self._finish("beam_jobs.infer_schema", *given, f"--output={path}")
        return path

    def dataset(self, name: str) -> pathlib.Path:
        """One of DATASETS."""
        output, (file, layout) = self.root / "datasets" / name / "1.0.0", DATASETS[name]
        if not output.exists():
            given = (
                f"--input={self.raw(file)}",
                *_source_flags(file),
                f"--schema={self.schema(file)}",
                *layout,
            )
            self._finish("beam_jobs.convert", *given, f"--output={output}")
        return output

    def made(self, name: str) -> pathlib.Path:
        """A result of the commands of commands.py, on 300 rows: a dataset, a run or a model."""
        if not (self.root / "made").exists():
            commands.make(self.root / "made", rows=300)
        return self.root / "made" / name

    def _finish(self, *arguments: str) -> None:
        commands.finish(arguments, self.root / "output")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hostile:
    """A file that somebody made to hurt: `write` puts it into an empty folder, for the commands to read."""

    name: str
    write: Callable[[pathlib.Path, Sound], object]
    commands: Callable[[pathlib.Path, Sound], Sequence[Arguments]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reader:
    """A command that reads a copy; {copy}, {made} and {out}, a new folder, stand in its arguments."""

    name: str
    arguments: Arguments
    same: Callable[[pathlib.Path], Contents] = lambda out: {}
    gives_way: bool = False  # it may take something older, if it says so
    in_place: bool = False  # it writes into the copy

    def command(self, copy: pathlib.Path, made: pathlib.Path, out: pathlib.Path) -> Arguments:
        names = {"{copy}": copy, "{made}": made, "{out}": out}
        filled = self.arguments
        for name, path in names.items():
            filled = tuple(each.replace(name, str(path)) for each in filled)
        return filled


@functools.cache
def sound_below(folder: pathlib.Path) -> Sound:
    """The same for all cases of a program, which has computed nothing yet."""
    shutil.rmtree(folder, ignore_errors=True)
    return Sound(root=folder)


def _source_flags(name: str) -> Arguments:
    return ("--format=images",) if name == PICTURES else ()


def raw_commands(
    name: str, *, schema: str = "", source: Arguments = (), convert: Arguments = ()
) -> Callable[[pathlib.Path, Sound], Sequence[Arguments]]:
    """infer_schema and convert of the raw file `name`; `schema` is the sound file that its schema is of."""

    def steps(folder: pathlib.Path, sound: Sound) -> Sequence[Arguments]:
        given = (f"--input={folder / name}", *source, *_source_flags(schema or name))
        declared = f"--schema={sound.schema(schema or name)}"
        return (
            ("beam_jobs.infer_schema", *given, f"--output={folder / 'schema.json'}"),
            ("beam_jobs.convert", *given, *convert, declared, f"--output={folder / 'out' / '1.0.0'}"),
        )

    return steps


def convert_by(folder: pathlib.Path, sound: Sound) -> Sequence[Arguments]:
    """Converts the sound table by the schema in `folder`."""
    given = (f"--input={sound.raw('data.csv')}", f"--schema={folder / 'schema.json'}")
    return (("beam_jobs.convert", *given, f"--output={folder / 'out' / '1.0.0'}"),)


def dataset_commands(kind: str) -> Callable[[pathlib.Path, Sound], Sequence[Arguments]]:
    """verify and training of `dataset` in a folder."""

    def steps(folder: pathlib.Path, sound: Sound) -> Sequence[Arguments]:
        readers = dataset_readers(kind)
        return [reader.command(folder / "dataset", sound.root / "made", folder / "out") for reader in readers]

    return steps


def dataset_readers(kind: str) -> tuple[Reader, ...]:
    """verify, and an epoch of training."""
    config = "image_classification" if kind == PICTURES else "tabular"
    tiny = (*_TINY_IMAGES, "--config.image_size=14,18") if kind == PICTURES else _TINY
    train = (
        "pipeline.train",
        f"--config=pipeline/configs/{config}.py",
        *tiny,
        *_EXACT,
        "--config.train.epochs=1.0",
    )
    return (
        Reader(name="verify", arguments=("beam_jobs.verify", "{copy}", "--json={out}"), same=_same_findings),
        Reader(
            name="train",
            arguments=(*train, "--dataset={copy}", "--workdir={out}"),
            same=lambda out: commands.final_metrics(out),
        ),
    )


def _same_findings(out: pathlib.Path) -> Contents:
    return {"problems": str(json.loads(out.read_text()).get("problems"))}


def _scores(out: pathlib.Path) -> Contents:
    kept = {
        key: value for key, value in json.loads(out.read_text()).items() if key not in ("model", "dataset")
    }
    return {"scores": str({key: value for key, value in kept.items() if "second" not in key})}


def _history(workdir: pathlib.Path) -> Contents:
    points = [json.loads(line) for line in (workdir / "history.jsonl").read_text().splitlines()]
    return commands.final_metrics(workdir) | {
        "losses": str([(each["step"], each.get("loss")) for each in points])
    }


EXPORT_READERS = (
    Reader(
        name="evaluate",
        arguments=(
            "pipeline.evaluate",
            "--model={copy}",
            "--dataset={made}/dataset",
            "--split=test",
            "--json={out}",
        ),
        same=_scores,
    ),
    Reader(
        name="predict",
        arguments=("beam_jobs.predict", "--model={copy}", "--input={made}/visits.csv", "--output={out}"),
        same=lambda out: {k: v for k, v in commands.directory_files(out).items() if k.endswith(".parquet")},
    ),
)
_TRAIN_RUN = next(command for command in commands.COMMANDS if command.name == "train").arguments
_ON_COPY = tuple(each.replace("{}", "{made}") for each in _TRAIN_RUN)
RUN_READERS = (
    Reader(name="train", arguments=(*_ON_COPY, "--workdir={copy}"), same=_history, in_place=True),
    Reader(
        name="export",
        arguments=("pipeline.export", "--workdir={copy}", "--output={out}"),
        same=commands.golden_predictions,
        gives_way=True,  # to the checkpoint before
    ),
)


def answer(arguments: Arguments, folder: pathlib.Path) -> Ended:
    """How a command ends in a fork; the clock runs on where the processor is shared."""
    return forked.command(arguments, folder, timeout=15 * _SECONDS, memory_mib=_GUARD_MIB)


def wrong(ended: Ended) -> str:
    """What is wrong with how a command ended, whatever it read; empty if nothing is."""
    lines = ended.error_lines
    if ended.timed_out or ended.cpu_seconds > _SECONDS:
        return f"took more than {_SECONDS} s"
    if ended.peak_mib > _MEMORY_MIB:
        return f"took {ended.peak_mib:,.0f} MiB"
    if ended.code not in (0, EXIT_BAD_INPUT):
        return f"exit code {ended.code}: {lines[-1:]}"
    if "Traceback (most recent" in ended.stderr:
        return f"a traceback: {lines[-1]}"
    if ended.code and len(lines) != 1 and (lines or not ended.stdout):
        return f"{len(lines)} lines: {' | '.join(lines)[:300]}"
    return ""


def wrong_strictly(ended: Ended, reader: Reader, out: pathlib.Path, *, file: str, whole: Contents) -> str:
    """What is wrong where the file must be named, or the result must be the same."""
    if problem := wrong(ended):
        return problem
    printed = ended.stderr + ended.stdout
    if ended.code:
        return "" if file in printed else f"{file} is not named: {printed.strip()[-300:]}"
    if reader.same(out) == whole:
        return ""
    warned = any(line.startswith("warning") and file in line for line in printed.splitlines())
    return "" if warned and reader.gives_way else "another result, without a word"


def run_hostile(case: Hostile, folder: pathlib.Path, sound: Sound) -> Iterator[str]:
    case.write(folder, sound)
    for arguments in case.commands(folder, sound):
        if problem := wrong(answer(arguments, folder / "output")):
            yield f"{arguments[0]}: {problem}"
    shutil.rmtree(folder, ignore_errors=True)
