"""How many small faults do the tests of `make test` find? The same faults before and after the code moves.

  python -m tests.soak.mutations --tree=OLD --plan=PLAN --draw
  python -m tests.soak.mutations --tree=OLD --plan=PLAN --results=BEFORE
  python -m tests.soak.mutations --tree=NEW --plan=PLAN --results=AFTER --count=60
  python -m tests.soak.mutations --tree=OLD --plan=PLAN --results=BEFORE --only=AFTER

The first draws seeded changes of operators, constants, returns and statements, spread over the rooms. The
others make them in a copy of a checkout, one at a time, and run those tests of `make test` there that import
the changed file. A fault is found if a test fails that passes without it. A run that ends early goes on where
it was.
"""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

from tests.house.imports import Checkout
from tests.soak import mutation_sites
from tests.soak.mutation_sites import Mutation, Site

EACH = 6  # candidates of a room
CPU_SECONDS = 180  # of the tests of a mutation
WALL_SECONDS = 1800  # a busy machine may take ten times as long


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tree", type=pathlib.Path, required=True)
    parser.add_argument("--plan", type=pathlib.Path, required=True)
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--only", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draw", action="store_true")
    args = parser.parse_args()
    house = Checkout(args.tree.resolve())
    if args.draw:
        args.plan.write_text(json.dumps(drawn(house, random.Random(args.seed)), indent=1))
        return
    plan = json.loads(args.plan.read_text())
    chosen = choose(plan, house, args.count)
    if args.only:
        wanted = json.loads(args.only.read_text())
        chosen = {number: place for number, place in chosen.items() if number in wanted}
    run(chosen, house, args.results)


def room_of(path: str) -> str:
    """Commands are a room; another has two folders, or three below `pipeline/`."""
    folders = path.split("/")[:-1]
    return "/".join(folders[: 3 if folders[0] == "pipeline" else 2])


def sites_of(house: Checkout) -> dict[str, list[Site]]:
    return {path: list(mutation_sites.sites(house.texts[path])) for path in house.product}


def drawn(house: Checkout, draw: random.Random) -> list[dict]:
    """Candidates, one of each room in turn; each of another function where a room has enough."""
    rooms: dict[str, list[dict]] = collections.defaultdict(list)
    files = sites_of(house)
    counts = collections.Counter(_text(site) for found in files.values() for site in found)
    for path, found in files.items():
        kinds: dict[tuple[str, str], list[Site]] = collections.defaultdict(list)
        for site in filter(lambda site: counts[_text(site)] == 1, found):
            kinds[site.mutation.function, site.mutation.kind].append(site)
        for several in kinds.values():
            chosen = draw.choice(several).mutation
            rooms[room_of(path)].append({"path": path, **dataclasses.asdict(chosen)})
    shuffled = [draw.sample(found, len(found)) for _, found in sorted(rooms.items())]
    turns = [
        [by_kind[i] for by_kind in map(_kinds_in_turn, shuffled) if i < len(by_kind)] for i in range(EACH)
    ]
    return [
        {"number": str(number), **one} for number, one in enumerate(one for turn in turns for one in turn)
    ]


def _text(site: Site) -> tuple[str, ...]:
    return site.mutation.body, *site.mutation.place


def _kinds_in_turn(candidates: Sequence[dict]) -> list[dict]:
    """The candidates of a room so that each kind of change comes before one comes again."""
    seen: collections.Counter[str] = collections.Counter()
    ranked = []
    for place, one in enumerate(candidates):
        ranked.append((seen[one["kind"]], place, one))
        seen[one["kind"]] += 1
    return [one for _, _, one in sorted(ranked, key=lambda each: each[:2])]


def choose(plan: Sequence[dict], house: Checkout, count: int) -> dict[str, tuple[str, Site]]:
    """So many mutations of the plan that are in this checkout; each room keeps its share of the first."""
    files = sites_of(house)
    found = {one["number"]: mutation_sites.located(_mutation(one), files) for one in plan}
    present = [one for one in plan if found[one["number"]]]
    shares = collections.Counter(room_of(one["path"]) for one in plan[:count])
    taken: collections.Counter[str] = collections.Counter()
    first, spare = [], []
    for one in present:
        room = room_of(one["path"])
        (first if taken[room] < shares[room] else spare).append(one)
        taken[room] += 1
    print(f"{len(present)} of {len(plan)} candidates are in this checkout", flush=True)
    return {one["number"]: found[one["number"]] for one in [*first, *spare][:count]}


def _mutation(one: dict) -> Mutation:
    return Mutation(**{field.name: one[field.name] for field in dataclasses.fields(Mutation)})


def run(chosen: dict[str, tuple[str, Site]], house: Checkout, results: pathlib.Path) -> None:
    """Tests each mutation that has no result yet, and writes the results after each."""
    found = json.loads(results.read_text()) if results.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        copied = pathlib.Path(folder)
        _copy(house.root, copied)
        tests = Tests(house, copied)
        for number, (path, site) in chosen.items():
            if number not in found:
                found[number] = {"path": path, "change": site.mutation.change, **tests.of(path, site)}
                results.write_text(json.dumps(found, indent=1))
                print(number, found[number], flush=True)
    counts = collections.Counter(found[number]["result"] for number in chosen)
    print(f"{len(chosen)} mutations: {counts['found']} found; {dict(counts)}")


def _copy(root: pathlib.Path, folder: pathlib.Path) -> None:
    """The tracked files, as a checkout: some tests ask git for them."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (root / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=folder, check=True)


class Tests:
    """The tests of `make test` in a copy of a checkout."""

    def __init__(self, house: Checkout, copied: pathlib.Path) -> None:
        printed = subprocess.run(
            ["make", "-n", "test"], cwd=house.root, check=True, capture_output=True, text=True
        )
        words = re.search(r"-m pytest(.*)", printed.stdout.replace("\\\n", " ")).group(1)
        given = shlex.split(re.sub(r"-n\s*\w+", "", words))
        roots = [word for word in given if (house.root / word).exists()] or ["tests"]
        self.options = [word for word in given if word not in roots]
        self.house, self.copied, self.failing = house, copied, []
        self.files = [
            path for path in house.files if path.endswith("_test.py") and path.startswith(tuple(roots))
        ]

    def of(self, path: str, site: Site) -> dict:
        """Whether a test finds the mutation, which one, and the seconds that it took."""
        chosen = sorted(self._importing(path), key=lambda test: self._distance(path, site, test))
        began = time.monotonic()
        result, test = self._tested(path, site, chosen) if chosen else ("no test imports it", "")
        return {
            "result": result,
            "test": test,
            "files": len(chosen),
            "seconds": round(time.monotonic() - began),
        }

    def _importing(self, path: str) -> Iterator[str]:
        return (test for test in self.files if path in self.house.ours(test))

    def _distance(self, path: str, site: Site, test: str) -> tuple[bool, bool, int]:
        """Tests that name the function come first, then that of the file's name, then the shortest."""
        text, name = self.house.texts[test], site.mutation.function.rpartition(".")[2]
        return name not in text, pathlib.Path(test).stem != f"{pathlib.Path(path).stem}_test", len(text)

    def _tested(self, path: str, site: Site, chosen: Sequence[str]) -> tuple[str, str]:
        text = (self.copied / path).read_text()
        while True:
            (self.copied / path).write_text(site.applied(text))
            try:
                code, failed = self._pytest(chosen)
            finally:
                (self.copied / path).write_text(text)
            if code == "timeout" or code in (0, 5):
                return ("survived" if code in (0, 5) else "timeout"), ""
            if not failed or self._pytest(failed)[0] == 0:
                return "found", " ".join(failed)
            self.failing += failed  # without the mutation, too
            chosen = [test for test in chosen if test not in failed]

    def _pytest(self, tests: Sequence[str]) -> tuple[int | str, list[str]]:
        """The exit code, or `timeout`, and the test that failed, whatever its parameters."""
        without = [f"--deselect={test}" for test in self.failing]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-rfE",
            "--tb=no",
            "-p",
            "no:cacheprovider",
            "-n",
            "0",
        ]
        limited = ["bash", "-c", f'ulimit -t {CPU_SECONDS}; exec "$@"', "bash", *command, *self.options]
        process = subprocess.Popen(
            [*limited, *without, *tests], cwd=self.copied, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            printed, _ = process.communicate(timeout=WALL_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return "timeout", []
        code = "timeout" if process.returncode < 0 else process.returncode
        return code, re.findall(r"^(?:FAILED|ERROR) ([^\s\[]+)", printed, flags=re.MULTILINE)


if __name__ == "__main__":
    main()
