"""40 models that nobody here wrote, by their names: trained, killed, resumed, exported, evaluated, replayed.

  python -m tests.soak.models --scratch=build/models
  python -m tests.soak.models --scratch=build/models --cases='keras_hub:*'
  python -m tests.soak.models --scratch=build/models --table

Each command is a process of its own, which starts in an empty folder and computes in mixed_bfloat16. Results
are kept in SCRATCH/results.jsonl, a line a model: what is there is not run again. --table prints them. Models
of keras_hub need requirements/models.txt.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from pipeline.data.schema.feature_types import Image, Label, Numeric, Tokens
from pipeline.data.schema.schema import Schema
from tests.shared import pictures
from tests.shared.tiny_dataset import write_dataset
from tests.soak.named_models import BOTH, NAMED_MODELS, OWN_FILES, PHOTOS, TABLE, TEXTS, NamedModel

ROOT = pathlib.Path(__file__).parents[2]
# A checkpoint is written beside the steps, and the next one waits for it: that of step 5 is whole at step 15.
STEPS, KILLED_AT, SAVED_EVERY = 20, 15, 5
_SIDE, _LENGTH, _WORDS = 32, 12, 40
_CONFIG = """
from pipeline.configs import base


def get_config():
    config = base.get_config()
    config.global_batch = 8
    config.train.steps = {steps}
    config.train.steps_per_loop = config.train.checkpoint_every_steps = config.train.log_every_steps = {every}
    config.optimizer.warmup_steps = 2
    return config
"""
_FEATURES = {
    PHOTOS: (Image(name="photo", height=_SIDE, width=_SIDE, channels=3),),
    TEXTS: (Tokens(name="words", length=_LENGTH, vocabulary_size=_WORDS),),
    TABLE: (Numeric(name="age"), Numeric(name="height")),
    BOTH: (Image(name="photo", height=_SIDE, width=_SIDE, channels=3), Numeric(name="age")),
}


def make_scratch(scratch: pathlib.Path) -> None:
    """Writes the datasets, the config and the own files."""
    for name, features in _FEATURES.items():
        schema = Schema(
            name=name, features=(*features, Label(name="y", task="multiclass", classes=("a", "b", "c")))
        )
        splits = {split: list(_rows(name, count)) for split, count in (("train", 96), ("test", 24))}
        if not (scratch / name).exists():
            write_dataset(scratch / name / "1.0.0", schema, splits)
    (scratch / "own").mkdir(exist_ok=True)
    (scratch / "empty").mkdir(exist_ok=True)
    config = {"config.py": _CONFIG.format(steps=STEPS, every=SAVED_EVERY)}
    for name, text in (config | OWN_FILES).items():
        (scratch / "own" / name).write_text(text.lstrip())


def _rows(dataset: str, count: int) -> Iterator[dict]:
    draw = np.random.default_rng(count)
    for number in range(count):
        label = number % 3
        values = {
            "photo": pictures.encode(pictures.noise(_SIDE, _SIDE, 3, seed=number) // (label + 1), "PNG"),
            "words": draw.integers(0, _WORDS, _LENGTH).tolist(),
            "age": float(draw.normal(label)),
            "height": float(draw.normal()),
        }
        yield {"y": label, **{each.name: values[each.name] for each in _FEATURES[dataset]}}


# --- One model: six processes.


def run_model(model: NamedModel, scratch: pathlib.Path) -> dict[str, object]:
    """Returns a line of the results."""
    run, export = scratch / "run", scratch / "export"
    for folder in (run, export):
        shutil.rmtree(folder, ignore_errors=True)
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    train = _train_command(model, scratch, run)
    result: dict[str, object] = {"model": model.name}
    try:
        _kill_at(train, scratch, f"step {KILLED_AT}/")
        said = _finish(train, scratch)
        if f"step {STEPS}/{STEPS}" not in said or not re.search(r"continuing from step \d", said):
            raise RuntimeError(f"did not go on: {said[-300:]}")
        result["notes"] = re.findall(r"^(?:head|pixels|unused) +(.*)", said, re.MULTILINE)
        result["parameters"] = json.loads((run / "run.json").read_text())["parameters"]
        result["loss"] = json.loads((run / "evaluation.json").read_text())["loss"]
        said = _finish(("pipeline.export", f"--workdir={run}", f"--output={export}"), scratch)
        dataset = f"--dataset={scratch / model.dataset / '1.0.0'}"
        found = scratch / "evaluated.json"
        _finish(("pipeline.evaluate", f"--model={export}", dataset, f"--json={found}"), scratch)
        result["exported_loss"] = json.loads(found.read_text())["loss"]
        _finish(("pipeline.replay", f"--workdir={run}", "--step=12", "--examples=2"), scratch)
    except (RuntimeError, OSError, KeyError, ValueError) as error:
        result["failed"] = " ".join(str(error).split())[-400:]
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
    return result | {"cpu_seconds": round(spent, 1)}


def _train_command(model: NamedModel, scratch: pathlib.Path, run: pathlib.Path) -> Sequence[str]:
    size = [f"--config.image_size={model.image_side},{model.image_side}"] if model.image_side else []
    return (
        *("pipeline.train", f"--config={scratch / 'own' / 'config.py'}", f"--workdir={run}"),
        *(f"--dataset={scratch / model.dataset / '1.0.0'}", "--precision=mixed_bfloat16"),
        *(f"--config.model.name={model.name}", *size),
        *(f"--config.model.{key}={value}" for key, value in model.arguments.items()),
    )


def _started(command: Sequence[str], scratch: pathlib.Path) -> subprocess.Popen:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=scratch / "empty",
        env=os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _kill_at(command: Sequence[str], scratch: pathlib.Path, line: str) -> None:
    """Kills a command when it prints a line; raises RuntimeError where it ends before."""
    with _started(command, scratch) as process:
        for said in process.stdout:
            if said.startswith(line):
                process.send_signal(signal.SIGKILL)
                return
        raise RuntimeError(f"{command[0]}: {process.stderr.read().strip()[-600:]}")


def _finish(command: Sequence[str], scratch: pathlib.Path) -> str:
    with _started(command, scratch) as process:
        said, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{command[0]}, exit code {process.returncode}: {errors.strip()[-600:]}")
    return said


# --- All of them.


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--scratch", type=pathlib.Path, required=True)
    parser.add_argument("--cases", default="*", help="patterns of models' names, by commas")
    parser.add_argument("--table", action="store_true", help="print the results that there are")
    args = parser.parse_args()
    scratch = args.scratch.resolve()
    scratch.mkdir(parents=True, exist_ok=True)
    results = scratch / "results.jsonl"
    done = {each["model"]: each for each in _read(results)}
    if not args.table:
        make_scratch(scratch)
        patterns = args.cases.split(",")
        chosen = [each for each in NAMED_MODELS if any(fnmatch.fnmatch(each.name, one) for one in patterns)]
        for model in chosen:
            if model.name in done and "failed" not in done[model.name]:
                continue
            done[model.name] = run_model(model, scratch)
            print(json.dumps(done[model.name], ensure_ascii=False), flush=True)
            with results.open("a") as file:
                print(json.dumps(done[model.name], ensure_ascii=False), file=file)
    print("\n".join(table(list(done.values()))))
    return int(any("failed" in each for each in done.values()))


def _read(results: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def table(results: Sequence[dict]) -> list[str]:
    """Rows of Markdown."""
    rows = ["| model | parameters | loss, test | exported: loss | CPU s |", "| --- | --: | --: | --: | --: |"]
    for each in results:
        if "failed" in each:
            rows.append(f"| `{each['model']}` | failed: {each['failed'][:200]} | | | |")
            continue
        rows.append(
            f"| `{each['model']}` | {each['parameters']:,} | {each['loss']:.4f} | "
            f"{each['exported_loss']:.4f} | {each['cpu_seconds']:.0f} |"
        )
    return rows


if __name__ == "__main__":
    sys.exit(main())
