r"""Damages files, data and what lies under a run; each damage must be named in one line, or have no effect.

  python -m tests.soak.damage --list
  python -m tests.soak.damage --cases=dataset_*,hostile/rows/* --count=50 --seed=7

`--count` says how often a case that draws its damage does so. Commands run in forks of this process, which
has imported TensorFlow and Beam. A damage's number and the seed make it again.
"""

import dataclasses
import functools
import pathlib
import random
import shutil
from collections.abc import Callable, Iterator

from absl import flags

from tests.shared import forked
from tests.shared.preloaded import preload
from tests.soak import damaged, generators, harness, samples
from tests.soak.damaged import PICTURES, Reader, Sound
from tests.soak.harness import Row, Soak


@dataclasses.dataclass(frozen=True, kw_only=True)
class Copies:
    """Copies of something sound, each with one damaged file, that one of the readers is given."""

    name: str
    sentence: str
    original: Callable[[Sound], pathlib.Path]
    readers: tuple[Reader, ...]

    def faults(self, soak: Soak) -> Iterator[str]:
        sound = damaged.sound_below(soak.folder.parent / "sound")
        original = self.original(sound)
        files = sorted(path.relative_to(original) for path in original.rglob("*") if path.is_file())
        files = [path for path in files if (original / path).stat().st_size]
        whole = {}
        for reader in self.readers:
            _, ended, whole[reader.name] = self._read(reader, soak, sound, lambda copy: None)
            if ended.code:
                yield f"{reader.name} of what is sound: {ended.stderr[-300:]}"
                return
        for number in range(soak.count):
            draw = soak.draw(number)
            file, reader = files[number % len(files)], draw.choice(self.readers)
            damage = functools.partial(_damage, file, draw)
            out, ended, _ = self._read(reader, soak, sound, damage)
            problem = damaged.wrong_strictly(ended, reader, out, file=file.name, whole=whole[reader.name])
            if problem:
                yield f"{number}, {file}, {reader.name}: {problem}"

    def _read(
        self, reader: Reader, soak: Soak, sound: Sound, damage: Callable[[pathlib.Path], object]
    ) -> tuple[pathlib.Path, forked.Ended, damaged.Contents]:
        """Where the result is, how the command ended, and what is the same in every result."""
        folder = soak.folder / "work"
        shutil.rmtree(folder, ignore_errors=True)
        original = self.original(sound)
        copy = folder / "copy" / original.name
        shutil.copytree(original, copy)
        damage(copy)
        ended = damaged.answer(reader.command(copy, sound.root / "made", folder / "out"), folder / "output")
        out = copy if reader.in_place else folder / "out"
        return out, ended, {} if ended.code else reader.same(out)


def _damage(file: pathlib.Path, draw: random.Random, copy: pathlib.Path) -> None:
    """Half of the damages are one bit."""
    content = (copy / file).read_bytes()
    change = generators.flip if draw.random() < 0.5 else generators.mutated
    (copy / file).write_bytes(change(content, draw))


COPIES = (
    *(
        Copies(
            name=f"dataset_{kind}",
            sentence=f"Damages a file of a dataset of {kind}: verify and training name it.",
            original=lambda sound, kind=kind: sound.dataset(kind),
            readers=damaged.dataset_readers(kind),
        )
        for kind in damaged.DATASETS
    ),
    Copies(
        name="export",
        sentence="Damages a file of an export: evaluation and prediction name it.",
        original=lambda sound: sound.made("model"),
        readers=damaged.EXPORT_READERS,
    ),
    Copies(
        name="run",
        sentence="Damages a file of a run: going on and exporting name it.",
        original=lambda sound: sound.made("run"),
        readers=damaged.RUN_READERS,
    ),
)


def raw(soak: Soak, *, target: str) -> Iterator[str]:
    """Mutates a raw file, or three images; every second conversion may leave rows out."""
    sound = damaged.sound_below(soak.folder.parent / "sound")
    for number in range(soak.count):
        lenient = ("--max_rejected_fraction=1",) if number % 2 else ()
        case = damaged.Hostile(
            name=target,
            write=functools.partial(_write_mutated, target, soak.draw(number)),
            commands=damaged.raw_commands(target, convert=lenient),
        )
        yield from (f"{number}: {fault}" for fault in hostile(soak, case, sound))


def _write_mutated(target: str, draw: random.Random, folder: pathlib.Path, sound: Sound) -> None:
    if target != PICTURES:
        (folder / target).write_bytes(generators.mutated(samples.content(target), draw))
        return
    samples.write_pictures(folder)
    for path in draw.sample(sorted((folder / PICTURES).rglob("*.*")), 3):
        path.write_bytes(generators.mutated(path.read_bytes(), draw))


def hostile(soak: Soak, case: damaged.Hostile, sound: Sound | None = None) -> Iterator[str]:
    folder = soak.folder / "work"
    folder.mkdir()
    return damaged.run_hostile(case, folder, sound or damaged.sound_below(soak.folder.parent / "sound"))


def rows() -> list[Row]:
    from tests.soak import (
        external_data,
        hostile_documents,
        hostile_files,
        hostile_rows,
        hostile_sizes,
        poisoned,
        run_mutation,
        seen_pictures,
        short_of_memory,
        ugly,
    )

    families = (hostile_rows, hostile_files, hostile_sizes, hostile_documents)
    return [
        *(Row(name=case.name, sentence=case.sentence, faults=case.faults) for case in COPIES),
        *(Row(name=case.name, sentence=case.sentence, faults=case.faults) for case in short_of_memory.CASES),
        Row(
            name="memory_reconcile",
            sentence="Limits the address space of a night: no span and no cycle is written down for it.",
            faults=short_of_memory.reconcile,
        ),
        *(
            Row(
                name=f"raw_{target}",
                sentence="Mutates a raw file of this name: infer_schema and convert answer in one line.",
                faults=functools.partial(raw, target=target),
            )
            for target in (*samples.FILES, PICTURES)
        ),
        *seen_pictures.ROWS,
        *poisoned.ROWS,
        *run_mutation.ROWS,
        *external_data.ROWS,
        *ugly.ROWS,
        *(
            Row(
                name=f"hostile/{case.name}",
                sentence="Somebody made it to hurt: one line, 1 GB and 60 s at most.",
                faults=functools.partial(hostile, case=case),
            )
            for family in families
            for case in family.CASES
        ),
    ]


if __name__ == "__main__":
    flags.DEFINE_integer("count", 20, "Damages of each case that draws them.", 1)
    harness.run(rows, preload=preload, times=lambda: flags.FLAGS.count)
