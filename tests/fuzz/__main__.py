"""Damaged and hostile files through infer_schema, convert, verify and training's reader.

  make fuzz
  python -m tests.fuzz --count=200 --seed=7
  python -m tests.fuzz --only=0:133-data.avro,surrogate_in_key.jsonl

Every step must end with exit code 0 or 2, in one line, without a traceback, within 1 GB and 60 s of processor
time. Mutated images that the conversion accepts must decode. A failure's name makes its case again. Steps run
in forks of this process, which has imported TensorFlow and Beam.
"""

import collections
import itertools
import json
import os
import pathlib
import re
import shutil
import sys
from collections.abc import Iterable, Sequence

from absl import app, flags

_COUNT = flags.DEFINE_integer("count", 2_000, "Mutated files.", 0)
_PICTURES = flags.DEFINE_integer("pictures", 1_500, "Mutated images to decode.", 0)
_HOSTILE = flags.DEFINE_bool("hostile", True, "Also the crafted files.")
_SEED = flags.DEFINE_integer("seed", 0, "Of the mutations.")
_ONLY = flags.DEFINE_list("only", [], "Names of cases, as failures are listed by; empty: all.")
_JOBS = flags.DEFINE_integer("jobs", os.cpu_count() or 1, "Cases at a time.", 1)
_FOLDER = flags.DEFINE_string("folder", "build/fuzz", "Where everything goes; it is emptied.")


def _cases() -> list:
    from tests.fuzz.hostile import HOSTILE
    from tests.fuzz.mutants import mutant

    if not _ONLY.value:
        return [
            *(HOSTILE.values() if _HOSTILE.value else ()),
            *(mutant(number, seed=_SEED.value) for number in range(_COUNT.value)),
        ]
    numbered = [re.match(r"(\d+):(\d+)-", name) for name in _ONLY.value]
    made = [mutant(int(found[2]), seed=int(found[1])) for found in numbered if found]
    return [*made, *(HOSTILE[name] for name in _ONLY.value if name in HOSTILE)]


def _work(cases: Iterable, results: pathlib.Path, folder: pathlib.Path, sound: object) -> None:
    """Runs in a fork: appends one line of JSON a step to `results`."""
    from tests.fuzz import judge

    with results.open("w") as file:
        for case in cases:
            for result in judge.run(case, folder, sound):
                file.write(json.dumps(result, ensure_ascii=True) + "\n")
                file.flush()
                if result["problem"]:
                    print(_line(result), flush=True)


def _line(result: dict) -> str:
    return f"{result['case']}  {result['step']}: {result['problem']}: {result['line'][:300]}".encode(
        "ascii", "backslashreplace"
    ).decode()


def _in_forks(cases: Sequence, root: pathlib.Path, sound: object) -> list[dict]:
    from tests.shared import forked

    files = [root / f"results-{job}.jsonl" for job in range(_JOBS.value)]
    children = []
    for job, results in enumerate(files):
        sys.stdout.flush()
        child = os.fork()
        if not child:
            code = 1
            forked.end_with_parent()
            try:
                _work(itertools.islice(cases, job, None, _JOBS.value), results, root / f"case-{job}", sound)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    broken = sum(os.waitpid(child, 0)[1] != 0 for child in children)
    if broken:
        raise RuntimeError(f"{broken} of {len(children)} workers of the fuzzer itself failed; see above")
    return [json.loads(line) for results in files for line in results.read_text().splitlines()]


def _decoded(root: pathlib.Path) -> tuple[int, list[dict]]:
    """How many images were accepted, and those of them that do not decode."""
    from tests.fuzz import pictures

    each = pictures.pictures(_PICTURES.value, seed=_SEED.value)
    taken = [stored for one in each if (stored := pictures.accepted(one))]
    failures = pictures.refused_by_graphs(taken, root / "decode")
    for failure in failures:
        print(_line(failure), flush=True)
    return len(taken), failures


def _summary(results: Sequence[dict]) -> None:
    for step in sorted({result["step"] for result in results}):
        own = [result for result in results if result["step"] == step]
        codes = collections.Counter(result["code"] for result in own)
        peak, slowest = (max(result[key] for result in own) for key in ("peak_mib", "seconds"))
        told = ", ".join(f"{number:,} × exit code {code}" for code, number in sorted(codes.items()))
        print(f"{step:24} {len(own):6,} runs: {told}; at most {peak:,} MiB, {slowest:.0f} s")


def main(argv: Sequence[str]) -> int:
    del argv
    from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow
    from tests.fuzz.case import make_sound
    from tests.shared.preloaded import preload

    root = pathlib.Path(_FOLDER.value).resolve()
    shutil.rmtree(root, ignore_errors=True)
    preload()
    sound = make_sound(root / "sound")
    cases = _cases()
    results = _in_forks(cases, root, sound)
    failures = [result for result in results if result["problem"]]
    if results:
        _summary(results)
    print(f"{len(cases):,} cases, {len(results):,} runs: {len(failures):,} failed")
    if not _ONLY.value:
        taken, undecoded = _decoded(root)
        print(f"{_PICTURES.value:,} mutated images, {taken:,} accepted: {len(undecoded):,} of them failed")
        failures += undecoded
    return 1 if failures else 0


if __name__ == "__main__":
    app.run(main)
