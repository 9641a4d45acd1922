"""What one case of the fuzzer is, and the sound things that all cases start from."""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping

from tests.fuzz import samples
from tests.shared import forked

INFER, CONVERT, VERIFY, READ = "infer", "convert", "verify", "read"
_SECONDS = 300  # for preparing something sound, on a busy machine


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sound:
    """Sound schemas by the name of their raw file, and sound datasets by theirs, to damage copies of."""

    root: pathlib.Path

    def schema(self, name: str) -> pathlib.Path:
        return self.root / f"{name}.json"

    def dataset(self, name: str) -> pathlib.Path:
        return self.root / "datasets" / name / "1.0.0"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """`write` puts damaged things into an empty folder; then each of `steps` is run on them.

    A step is a command line that starts with its module, or READ with the dataset that training's reader is
    to read. `write` gets the folder and what is sound; so does `steps`, when the files are there.
    """

    name: str  # tells what to give --only
    write: Callable[[pathlib.Path, Sound], object]
    steps: Callable[[pathlib.Path, Sound], tuple[tuple[str, ...], ...]]


def raw_steps(
    name: str, *, schema: str = "", source: tuple[str, ...] = (), convert: tuple[str, ...] = ()
) -> Callable[[pathlib.Path, Sound], tuple[tuple[str, ...], ...]]:
    """infer_schema and convert of the raw file `name`; `schema` is the sound file that its schema is of."""

    def steps(folder: pathlib.Path, sound: Sound) -> tuple[tuple[str, ...], ...]:
        given = (f"--input={folder / name}", *source)
        declared = f"--schema={sound.schema(schema or name)}"
        return (
            ("beam_jobs.infer_schema", *given, f"--output={folder / 'schema.json'}"),
            ("beam_jobs.convert", *given, *convert, declared, f"--output={folder / 'out' / '1.0.0'}"),
        )

    return steps


def dataset_steps(folder: pathlib.Path, sound: Sound) -> tuple[tuple[str, ...], ...]:
    """verify and training's reader, of `dataset`."""
    del sound
    return (("beam_jobs.verify", str(folder / "dataset")), (READ, str(folder / "dataset")))


PICTURES = "pictures"  # the raw folder of images


def write_pictures(folder: pathlib.Path) -> None:
    for number in range(12):
        ending = samples.PICTURES[number % 2]
        place = folder / PICTURES / ("cat", "dog")[number // 2 % 2]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.{ending}").write_bytes(samples.picture(number, ending))


DATASETS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "rows": ("data.csv", ()),
    "blocks": ("data.csv", ("--layout=blocks",)),
    "pictures": (PICTURES, ()),
}
_LABELS = {"data.txt": (), PICTURES: ()}


def source_flags(name: str) -> tuple[str, ...]:
    return ("--format=images",) if name == PICTURES else ()


def make_sound(root: pathlib.Path) -> Sound:
    """Writes every sound file, infers its schema and converts three; raises RuntimeError where that fails."""
    root.mkdir(parents=True)
    sound = Sound(root=root)
    for name in samples.FILES:
        (root / name).write_bytes(samples.content(name))
    write_pictures(root)
    for name in (*samples.FILES, PICTURES):
        plain = ".".join(name.split(".")[:2])
        label = _LABELS.get(plain, ("--label=bought",))
        given = (f"--input={root / name}", *source_flags(name), *label, "--name=data")
        _run("beam_jobs.infer_schema", *given, f"--output={sound.schema(name)}", root=root)
    for dataset, (name, layout) in DATASETS.items():
        given = (f"--input={root / name}", *source_flags(name), f"--schema={sound.schema(name)}", *layout)
        _run("beam_jobs.convert", *given, f"--output={sound.dataset(dataset)}", root=root)
    return sound


def _run(*arguments: str, root: pathlib.Path) -> None:
    ended = forked.command(arguments, root / "output", timeout=_SECONDS)
    if ended.code:
        raise RuntimeError(f"{' '.join(arguments)}: {ended.stderr}")
