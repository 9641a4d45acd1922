"""Publishing, in a directory and to an object store: killed, paused, by many at once, and under a reader.

A story publishes, takes back, rolls back and collects, in a random order. No version that TensorFlow Serving
would find may ever be incomplete, another than before, or there twice. The store is Cloud Storage's emulator.
"""

import collections
import contextlib
import dataclasses
import functools
import hashlib
import importlib.util
import itertools
import json
import os
import pathlib
import random
import select
import shutil
import signal
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence

from pipeline.base import files
from pipeline.base.errors import InputError, TryAgainError
from pipeline.publishing import publish, versions
from pipeline.publishing.remote import follow as follow_lib
from tests.shared import forked, plain_export, storage_emulator
from tests.soak.case import Case, Ended, Generation, Moment
from tests.soak.harness import TRIES, Row, Soak

PUBLISHES, KEEP = 12, 3
TRY_AGAIN = 75
GRAPH, MARKER = "saved_model.pb", "publication.json"
_AT = "2026-11-{:02d}T06:00:00+00:00"
_BUCKET = "pipeline.publishing.remote.cloud_storage:GoogleBucket"
REQUESTS = tuple(f"before {_BUCKET}.{verb}" for verb in ("list", "find", "read", "write", "copy", "delete"))
_ALONE = (".lease", ".marker")  # may stay in a place


@dataclasses.dataclass(frozen=True, kw_only=True)
class Act:
    """One call. It names versions by their numbers: to make it again is to make it once."""

    verb: str  # publish, take_back, rollback or collect
    at: str
    cycle: str = ""
    version: int = 0

    def make(self, directory: pathlib.Path, exports: pathlib.Path) -> None:
        if self.verb == "publish":
            card = {"MODEL_CARD.md": f"# {self.cycle}\n".encode()}
            publish.publish(exports / self.cycle, directory, cycle=self.cycle, documents=card, at=self.at)
        elif self.verb == "take_back":
            publish.take_back(directory, self.version, reason="it answers NaN", at=self.at)
        elif self.verb == "rollback":
            publish.rollback(directory, to=self.version, reason="it sells less", at=self.at)
        else:
            publish.collect(directory, keep=KEEP)


def acts_of_story(directory: pathlib.Path, exports: pathlib.Path, draw: random.Random) -> Iterator[Act]:
    """Makes a story in `directory`: each act depends on what the ones before left."""

    def made(verb: str, **named: object) -> Act:
        act = Act(verb=verb, at=_AT.format(number % 28 + 1), **named)
        act.make(directory, exports)
        return act

    for number in range(1, PUBLISHES + 1):
        yield made("publish", cycle=f"cycle-{number:03d}")
        if len(there := versions.versions(directory)) > 1 and draw.random() < 0.2:
            yield made("take_back", version=there[-1])
        if len(there := versions.versions(directory)) > 1 and draw.random() < 0.2:
            yield made("rollback", version=draw.choice(there[:-1]))
        if draw.random() < 0.4:
            yield made("collect")


def write_exports(exports: pathlib.Path, draw: random.Random, *, files: int, size: int) -> None:
    for number in range(1, PUBLISHES + 1):
        content = {f"variables/{part}": draw.randbytes(size) for part in range(files)}
        plain_export.write(exports / f"cycle-{number:03d}", {GRAPH: draw.randbytes(1000), **content})


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublishingCase(Case):
    """A story that goes on where it was killed; with `follows`, each act is followed by the store."""

    follows: bool = False
    each: int = 20
    reach: float = 0.3

    def make(self, made: pathlib.Path, soak: Soak) -> None:
        sizes = {"files": 2, "size": 20_000} if self.follows else {"files": 12, "size": 200_000}
        write_exports(made / "exports", soak.draw("exports"), **sizes)
        acts = acts_of_story(made / "serving", made / "exports", soak.draw("acts"))
        (made / "acts.json").write_text(json.dumps([dataclasses.asdict(act) for act in acts]))

    def running(self, soak: Soak) -> contextlib.AbstractContextManager[object]:
        return store(soak) if self.follows else contextlib.nullcontext()

    def bodies(self, generation: Generation) -> Sequence[Callable[[], None]]:
        return [functools.partial(self._go_on, generation)]

    def _go_on(self, generation: Generation) -> None:
        """Makes the acts from the first on that is not known to be done."""
        done, acts = generation.story / "done", json.loads((generation.made / "acts.json").read_text())
        first = int(done.read_text()) if done.exists() else 0
        for number, act in enumerate(acts[first:], start=first + 1):
            Act(**act).make(generation.story / "serving", generation.made / "exports")
            if self.follows:
                follow_at_last(generation.story / "serving", generation.story.name)
            files.write_bytes(done, str(number).encode())

    def moment(
        self, draw: random.Random, number: signal.Signals, *, cpu_seconds: float, story: pathlib.Path
    ) -> Moment:
        if self.follows and draw.random() < 0.5:
            return Moment(number=number, place=draw.choice(REQUESTS), call=draw.randrange(40))
        return super().moment(draw, number, cpu_seconds=cpu_seconds, story=story)

    def faults_of(self, generation: Generation, ended: Ended) -> Iterator[str]:
        yield from super().faults_of(generation, ended)
        seen_file = generation.story / "seen.json"
        seen = json.loads(seen_file.read_text()) if seen_file.exists() else {}
        yield from wrong(generation.story / "serving", seen)
        seen_file.write_text(json.dumps(seen))
        if self.follows:
            yield from incomplete(generation.story.name)

    def state(self, made: pathlib.Path, story: pathlib.Path) -> dict[str, object]:
        """Every file with its content; of the journal, what it says; and what the place differs in."""
        serving = story / "serving"
        found = {path.relative_to(serving).as_posix(): path for path in serving.rglob("*") if path.is_file()}
        files: dict[str, object] = {name: _sha256(path.read_bytes()) for name, path in found.items()}
        # Killed while the journal was written: the next write replaces it.
        files = {name: value for name, value in files.items() if not name.endswith(".tmp")}
        files[".journal.json"] = json.loads(found[".journal.json"].read_text())
        return files | ({"the place": unlike(story.name, serving)} if self.follows else {})


def wrong(directory: pathlib.Path, seen: dict[str, str]) -> Iterator[str]:
    """What is wrong with what is served; `seen` has the digests of versions served before, and gets these."""
    highest, cycles = max(map(int, seen), default=0), collections.Counter()
    for number in versions.numbers(directory) if directory.exists() else []:
        try:
            document = versions.check(directory, number)
        except InputError as error:
            yield f"half published: {error}"
            continue
        if seen.get(str(number), document["digest"]) != document["digest"]:
            yield f"version {number} is another than before"
        if str(number) not in seen and number <= highest:
            yield f"version {number} appeared below {highest}"
        seen[str(number)] = document["digest"]
        cycles[document["cycle"]] += "rolled_back" not in document
    yield from (f"{count} versions of {cycle}" for cycle, count in cycles.items() if count > 1)
    if highest and not cycles:
        yield "nothing is served any more"


def lacks_emulator(soak: Soak) -> str:
    needed = ("gcp_storage_emulator", "google.cloud.storage")
    try:
        missing = [name for name in needed if importlib.util.find_spec(name) is None]
    except ModuleNotFoundError as error:
        missing = [error.name]
    return f"needs requirements/gcp.txt ({', '.join(missing)})" if missing else ""


@contextlib.contextmanager
def store(soak: Soak) -> Iterator[None]:
    from pipeline.publishing.remote import cloud_storage

    cloud_storage.check_installed("gs://…")  # and imported ahead of the first fork, which takes it along
    with storage_emulator.running(soak.folder / "emulator") as url:
        os.environ["STORAGE_EMULATOR_HOST"] = url
        yield


def follow(directory: pathlib.Path, prefix: str) -> None:
    """One call; exits with 75 where it has to try again."""
    from pipeline.publishing.remote.cloud_storage import GoogleBucket

    bucket = GoogleBucket(storage_emulator.BUCKET, prefix)
    try:
        follow_lib.follow(bucket, directory, url=f"gs://{storage_emulator.BUCKET}/{prefix}")
    except TryAgainError as error:
        print(error)
        raise SystemExit(TRY_AGAIN) from error


def follow_at_last(directory: pathlib.Path, prefix: str) -> None:
    """Calls again as a scheduler would."""
    for _ in range(100):
        with contextlib.suppress(SystemExit):
            follow(directory, prefix)
            return


def listed(prefix: str) -> dict[str, str]:
    """The generation of each object, by its name below the prefix."""
    with urllib.request.urlopen(f"{_api('storage/v1')}?prefix={_quoted(prefix)}%2F") as answer:
        items = json.load(answer).get("items", [])
    return {item["name"].removeprefix(f"{prefix}/"): item["generation"] for item in items}


def content(prefix: str, name: str) -> bytes:
    """Raises FileNotFoundError."""
    try:
        with urllib.request.urlopen(
            f"{_api('download/storage/v1')}/{_quoted(f'{prefix}/{name}')}?alt=media"
        ) as got:
            return got.read()
    except urllib.error.HTTPError as error:
        raise FileNotFoundError(name) from error


def loadable(names: Mapping[str, str]) -> list[int]:
    """The numbers under which TensorFlow Serving could load a model."""
    return sorted(int(name.split("/")[0]) for name in names if name.endswith(f"/{GRAPH}") and name[0] != ".")


def incomplete(prefix: str, names: Mapping[str, str] | None = None, *, newest: bool = False) -> Iterator[str]:
    """What is wrong with the versions of a place that could be loaded, as `names` listed them."""
    names = listed(prefix) if names is None else names
    for number in loadable(names)[-1:] if newest else loadable(names):
        if f"{number}/{MARKER}" not in names:
            yield f"version {number} can be loaded, and has no {MARKER}"
            continue
        for name, entry in json.loads(content(prefix, f"{number}/{MARKER}"))["files"].items():
            if f"{number}/{name}" not in names:
                yield f"version {number} can be loaded, and lacks {name}"
            elif _sha256(content(prefix, f"{number}/{name}")) != entry["sha256"]:
                yield f"version {number}: {name} has other bytes than were published"


def unlike(prefix: str, directory: pathlib.Path) -> list[str]:
    """Names of objects and files that differ between a place and the versions of a serving directory."""
    files = {path.relative_to(directory).as_posix(): path for path in directory.rglob("*") if path.is_file()}
    here = {name: path.read_bytes() for name, path in files.items() if name.split("/")[0].isdigit()}
    there = {name: content(prefix, name) for name in listed(prefix) if name not in _ALONE}
    return sorted(name for name in {*here, *there} if here.get(name) != there.get(name))


def _api(path: str) -> str:
    return f"{os.environ['STORAGE_EMULATOR_HOST']}/{path}/b/{storage_emulator.BUCKET}/o"


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _two_versions(soak: Soak) -> tuple[pathlib.Path, pathlib.Path]:
    """A serving directory of two versions, and the same after the second was taken back."""
    write_exports(soak.folder / "exports", soak.draw("exports"), files=2, size=20_000)
    before = soak.folder / "before"
    for number in (1, 2):
        cycle = f"cycle-{number:03d}"
        publish.publish(soak.folder / "exports" / cycle, before, cycle=cycle, at=_AT.format(number))
    after = shutil.copytree(before, soak.folder / "after")
    publish.take_back(after, 2, reason="NaN", at=_AT.format(3))
    return before, after


def paused(soak: Soak) -> Iterator[str]:
    """A writer of version 2 is stopped ahead of each request; another one, which took it back, finishes."""
    with store(soak):
        before, after = _two_versions(soak)
        for request, call in itertools.product(REQUESTS, range(soak.count)):
            prefix = f"{request.rpartition('.')[2]}-{call}"
            follow_at_last(after, prefix)
            moment = Moment(number=signal.SIGSTOP, place=request, call=call)
            code, had_committed = _woken(soak, moment, before, after, prefix)
            if code is None:
                continue  # it made fewer requests, or nothing was its own yet
            if code not in (0, TRY_AGAIN) or (code == 0 and not had_committed):
                yield f"{moment}: exit code {code}"
            if loadable(listed(prefix)) != [1]:
                yield f"{moment}: it made a version when it woke"
            yield from (f"{moment}: {fault}" for fault in incomplete(prefix))
            follow_at_last(after, prefix)
            yield from (f"{moment}: {name} is left" for name in unlike(prefix, after))


def _woken(
    soak: Soak, moment: Moment, before: pathlib.Path, after: pathlib.Path, prefix: str
) -> tuple[int | None, bool]:
    """The exit code of a writer that was stopped and woken, and whether it had committed before."""
    from tests.soak import hooks

    claimed = _claims(prefix)
    child = forked.start(lambda: (hooks.send_at(moment), follow(before, prefix)), soak.folder / "process")
    _, status = os.waitpid(child, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        return None, False
    if _claims(prefix) == claimed:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return None, False
    had_committed = 2 in loadable(listed(prefix))
    follow_at_last(after, prefix)
    os.kill(child, signal.SIGCONT)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), had_committed


def _claims(prefix: str) -> dict[str, str]:
    """The generations of what says who writes to a place."""
    return {name: generation for name, generation in listed(prefix).items() if name in _ALONE}


def rivals(soak: Soak) -> Iterator[str]:
    """Eight processes publish the same versions at once: some end well, the others have to try again."""
    with store(soak):
        before, _ = _two_versions(soak)
        for turn in range(soak.count):
            folders = [soak.folder / f"process-{number}" for number in range(TRIES)]
            prefix = f"rivals-{turn}"
            children = [forked.start(functools.partial(follow, before, prefix), folder) for folder in folders]
            codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
            if 0 not in codes or set(codes) - {0, TRY_AGAIN}:
                yield f"exit codes {codes}"
            yield from incomplete(prefix)
            follow_at_last(before, prefix)
            yield from (f"{name} is left" for name in unlike(prefix, before))


def read(soak: Soak, *, from_store: bool) -> Iterator[str]:
    """A reader looks at the newest version without end, while versions come and go."""
    with store(soak) if from_store else contextlib.nullcontext():
        for turn in range(soak.count // 10 + 1):
            serving, exports = (soak.folder / f"{name}-{turn}" for name in ("serving", "exports"))
            write_exports(exports, soak.draw(turn), files=2, size=20_000)
            reads, writes = os.pipe()
            place = _Store(serving.name) if from_store else _Directory(serving)
            child = forked.start(functools.partial(_read, place, reads), serving.with_name("reader"))
            for _ in acts_of_story(serving, exports, soak.draw(turn, "acts")):
                if from_store:
                    follow_at_last(serving, serving.name)
            os.write(writes, b"end")
            os.waitpid(child, 0)
            yield from sorted(set((serving.with_name("reader") / "stdout").read_text().splitlines()))


class _Directory:
    """A serving directory, as its reader sees it."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory

    def newest(self) -> object:
        """What is another when the newest version is; None where there is none."""
        numbers = versions.numbers(self._directory) if self._directory.exists() else []
        with contextlib.suppress(OSError, ValueError):
            return (number := max(numbers)), (self._directory / str(number)).stat().st_ino
        return None

    def faults(self, newest: object) -> list[str]:
        versions.check(self._directory, newest[0])
        return []


class _Store:
    """A place in a store, as its reader sees it."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def newest(self) -> object:
        names = listed(self._prefix)
        there = loadable(names)
        return (names[f"{there[-1]}/{GRAPH}"], names) if there else None

    def faults(self, newest: object) -> list[str]:
        return [*incomplete(self._prefix, newest[1], newest=True)]


def _read(place: _Directory | _Store, ends: int) -> None:
    """Prints what is wrong with what is there; a version may go while it is read, and then is no fault."""
    reads = 0
    while not select.select([ends], [], [], 0)[0]:
        if (newest := place.newest()) is None:
            continue
        try:
            faults = place.faults(newest)
        except (InputError, OSError) as error:
            faults = [str(error)]
        reads += 1
        if faults and (place.newest() or [None])[0] == newest[0]:
            print(*faults, sep="\n", flush=True)
    print(f"{reads} reads", file=sys.stderr)


CASES = (
    PublishingCase(
        name="publish", sentence="Publishes, takes back, rolls back: a version is never half there."
    ),
    PublishingCase(
        name="publish_to_store",
        sentence="The same, each act followed by a store: also killed ahead of any request.",
        follows=True,
        lacks=lacks_emulator,
    ),
)
ROWS = (
    Row(
        name="publish_read",
        sentence="A reader of a serving directory finds no version half there, while versions come and go.",
        faults=functools.partial(read, from_store=False),
    ),
    Row(
        name="store_read",
        sentence="The same, of a reader of an object store.",
        faults=functools.partial(read, from_store=True),
        lacks=lacks_emulator,
    ),
    Row(
        name="store_paused",
        sentence="A writer that is stopped ahead of a request, and woken behind another, makes no version.",
        faults=paused,
        lacks=lacks_emulator,
    ),
    Row(
        name="store_rivals",
        sentence="Eight writers of a store at once: it ends complete.",
        faults=rivals,
        lacks=lacks_emulator,
    ),
)
