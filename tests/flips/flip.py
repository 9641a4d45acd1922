"""Flips one bit of a file at a time, and says what a command made of it."""

import collections
import dataclasses
import enum
import io
import pathlib
import random
import shutil
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout

from pipeline.base.errors import InputError

Command = Callable[[pathlib.Path], object]  # what it makes of a directory, comparable with `==`


class Verdict(enum.Enum):
    """Best first: of several commands, the worst counts."""

    NAMED = "named"  # one line that names the file: an error, or a warning and the same or an older result
    NO_EFFECT = "no effect"  # what came out is the same
    NOT_NAMED = "not named"  # one line, of something else
    TRACEBACK = "traceback"
    WRONG = "wrong"  # another result, without a word


ALLOWED = (Verdict.NAMED, Verdict.NO_EFFECT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    """A directory, and the commands that read it."""

    name: str
    directory: pathlib.Path
    commands: Mapping[str, Command]
    gives_way: tuple[str, ...] = ()  # commands that may take something older, if they say so

    @property
    def files(self) -> list[str]:
        found = (path for path in sorted(self.directory.rglob("*")) if path.is_file())
        return [str(path.relative_to(self.directory)) for path in found if path.stat().st_size]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Flip:
    """What became of one flipped bit."""

    subject: str
    file: str
    byte: int
    bit: int
    command: str  # that said so
    verdict: Verdict
    said: str


class Flipper:
    """Runs the commands of a subject on copies of it, each with one flipped bit."""

    def __init__(self, subject: Subject, scratch: pathlib.Path) -> None:
        self._subject = subject
        self._copy = scratch / subject.directory.name
        self._whole = {name: self._result(name)[0] for name in subject.commands}
        self._readers: dict[str, list[str]] = {}

    def flip(self, file: str, byte: int, bit: int) -> Flip:
        """The worst that a command makes of it; a command that reads nothing of the file is not asked."""
        told = [self._told(name, file, byte, bit) for name in self.readers(file)]
        worst = max(told, key=lambda one: list(Verdict).index(one[1]), default=("", Verdict.NO_EFFECT, ""))
        if any(verdict is Verdict.NAMED for _, verdict, _ in told) and worst[1] is Verdict.NO_EFFECT:
            worst = next(one for one in told if one[1] is Verdict.NAMED)
        command, verdict, said = worst
        return Flip(
            subject=self._subject.name,
            file=file,
            byte=byte,
            bit=bit,
            command=command,
            verdict=verdict,
            said=said,
        )

    def readers(self, file: str) -> list[str]:
        """The commands to which the content of the file matters: another content changes what they do."""
        if file not in self._readers:
            self._readers[file] = [
                name
                for name in self._subject.commands
                if self._judged(name, file, lambda content: bytes(255 - byte for byte in content))[0]
                is not Verdict.NO_EFFECT
            ]
        return self._readers[file]

    def _told(self, name: str, file: str, byte: int, bit: int) -> tuple[str, Verdict, str]:
        def flipped(content: bytes) -> bytes:
            return content[:byte] + bytes([content[byte] ^ 1 << bit]) + content[byte + 1 :]

        return name, *self._judged(name, file, flipped)

    def _judged(self, name: str, file: str, change: Callable[[bytes], bytes]) -> tuple[Verdict, str]:
        def damage(copy: pathlib.Path) -> None:
            (copy / file).write_bytes(change((copy / file).read_bytes()))

        base = pathlib.PurePath(file).name
        try:
            result, printed = self._result(name, damage)
        except InputError as error:
            is_named = base in str(error) and "\n" not in str(error)
            return (Verdict.NAMED if is_named else Verdict.NOT_NAMED), str(error)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            return Verdict.TRACEBACK, f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"
        warned = [line for line in printed if line.startswith("warning") and base in line]
        if result != self._whole[name] and not (warned and name in self._subject.gives_way):
            return Verdict.WRONG, "another result"
        return (Verdict.NAMED, warned[0]) if warned else (Verdict.NO_EFFECT, "")

    def _result(
        self, name: str, damage: Callable[[pathlib.Path], None] = lambda copy: None
    ) -> tuple[object, list[str]]:
        """What the command makes of a copy, and the lines that it prints."""
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self._subject.directory, self._copy)
        damage(self._copy)
        with redirect_stdout(io.StringIO()) as printed:
            result = self._subject.commands[name](self._copy)
        return result, printed.getvalue().splitlines()


def flips(subject: Subject, scratch: pathlib.Path, *, count: int, seed: int) -> Iterator[Flip]:
    """`count` flips, spread evenly over the files."""
    flipper, draw = Flipper(subject, scratch), random.Random(seed)
    files = subject.files
    for number in range(count):
        file = files[number % len(files)]
        size = (subject.directory / file).stat().st_size
        yield flipper.flip(file, draw.randrange(size), draw.randrange(8))


def table(found: Sequence[Flip]) -> str:
    """A line a file: how many flips had which verdict."""
    counts: dict[tuple[str, str], collections.Counter] = collections.defaultdict(collections.Counter)
    for one in found:
        counts[one.subject, one.file][one.verdict] += 1
        counts["all", ""][one.verdict] += 1
    width = max(len(f"{subject} {file}") for subject, file in counts)
    head = f"{'file':<{width}}" + "".join(f"{verdict.value:>11}" for verdict in Verdict)
    lines = [
        f"{f'{subject} {file}':<{width}}" + "".join(f"{count[verdict]:>11,}" for verdict in Verdict)
        for (subject, file), count in sorted(counts.items(), key=lambda item: (item[0][0] == "all", item[0]))
    ]
    return "\n".join([head, *lines])
