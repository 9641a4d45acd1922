"""What docs/troubleshooting.md says of the usual situations: its words come, and its way out leads on."""

import os
import pathlib
import random
import subprocess

import pytest

from tests.house.docs import documents, messages, reference

ROOT = documents.ROOT
CONVERT = "beam_jobs.convert --schema={}/schema.json"
CONFIG = "--config=pipeline/configs/tabular.py --config.train.steps=20 --nobaseline"
TRAIN = f"pipeline.train {CONFIG} --dataset={{}}/shop/1"
MODEL = "import keras\ndef build(numeric, outputs):\n    x = keras.Input((numeric,), name='numeric')\n"
MODEL += "    return keras.Model({'numeric': x}, keras.layers.Dense(outputs, dtype='float32')(x))\n"

# The words of the page; what brings them up; the way out. {} is a folder for all commands of a case.
SITUATIONS = {
    "format": (
        "--format: received nothing, and inputs …",
        "beam_jobs.infer_schema --input={}/shop.dat --label=bought --output={}/new.json",
        "beam_jobs.infer_schema --input={}/shop.dat --label=bought --output={}/new.json --format=csv",
    ),
    "label": (
        "--label or --ignore: received '…'",
        "beam_jobs.infer_schema --input={}/shop.csv --label=boght --output={}/new.json",
        "beam_jobs.infer_schema --input={}/shop.csv --label=bought --output={}/new.json",
    ),
    "rejected rows": (
        "rows that cannot be converted: received … of … rows",
        f"{CONVERT} --input={{}}/ugly.csv --output={{}}/ugly",
        f"{CONVERT} --input={{}}/ugly.csv --output={{}}/ugly --max_rejected_fraction=0.1",
    ),
    "published": (
        "--output=…: received a published dataset",
        f"{CONVERT} --input={{}}/shop.csv --output={{}}/shop/1",
        f"{CONVERT} --input={{}}/shop.csv --output={{}}/shop/2",
    ),
    "key": (
        "--config.…: received a key that the config does not have",
        f"{TRAIN} --workdir={{}}/run --config.train.epoch=1",
        f"{TRAIN} --workdir={{}}/run --config.train.epochs=1.0",
    ),
    "replicas": (
        "--config.global_batch: received …; expected a positive multiple of the … replicas",
        f"{TRAIN} --workdir={{}}/run --strategy=mirrored --logical_devices=3 --config.global_batch=64",
        f"{TRAIN} --workdir={{}}/run --strategy=mirrored --logical_devices=3 --config.global_batch=63",
    ),
    "not finite": (
        "step …: received a loss or gradient that is not finite",
        f"{TRAIN} --workdir={{}}/run --config.optimizer.learning_rate=1e30",
        f"{TRAIN} --workdir={{}}/other --config.optimizer.learning_rate=1e-3 --config.train.micro_batches=4"
        " --config.train.class_weights=balanced",
    ),
    "no module": (
        "--config.model.name=…: received no module …",
        f"{TRAIN} --workdir={{}}/run --config.model.name=mine:build",
        f"{TRAIN} --workdir={{}}/run --config.model.name=mine:build PYTHONPATH={{}}/code",
    ),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, warm_python: pathlib.Path) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("situations")
    drawn = random.Random(3)
    rows = [(drawn.randint(18, 80), drawn.randint(0, 9)) for _ in range(600)]
    lines = [f"{age},{visits},{'yes' if visits + drawn.gauss(0, 1) > 5 else 'no'}" for age, visits in rows]
    for name in ("shop.csv", "shop.dat"):
        (folder / name).write_text("\n".join(["age,visits,bought", *lines, ""]))
    (folder / "ugly.csv").write_text("\n".join(["age,visits,bought", "old,1,no", *lines, ""]))
    (folder / "code").mkdir()
    (folder / "code/mine.py").write_text(MODEL)
    infer = "beam_jobs.infer_schema --input={}/shop.csv --label=bought --output={}/schema.json"
    for command in (infer, f"{CONVERT} --input={{}}/shop.csv --output={{}}/shop/1"):
        assert not run(warm_python, command, folder).returncode
    return folder


def run(python: pathlib.Path, command: str, folder: pathlib.Path) -> subprocess.CompletedProcess:
    """Runs `python -m command`; a word NAME=VALUE without dashes is a variable of its environment."""
    words = command.replace("{}", str(folder)).split()
    variables = dict(word.split("=", 1) for word in words if word.startswith("PYTHONPATH="))
    flags = [word for word in words if not word.startswith("PYTHONPATH=")]
    path = os.pathsep.join([str(ROOT), *variables.values()])
    environment = os.environ | {"PYTHONPATH": path}
    return subprocess.run(
        [python, "-m", *flags], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", SITUATIONS)
def test_the_way_out_leads_on(
    name: str, place: pathlib.Path, warm_python: pathlib.Path, tmp_path: pathlib.Path
):
    words, command, way_out = SITUATIONS[name]
    assert f"| `{words}` |" in documents.read(reference.TROUBLESHOOTING)
    for source in place.iterdir():
        (tmp_path / source.name).symlink_to(source)
    refused = run(warm_python, command, tmp_path)
    assert refused.returncode == 2, refused.stderr
    line = next(line for line in refused.stderr.splitlines() if line.startswith("error: "))
    assert messages.pattern(f"error: {words}…").fullmatch(line), line
    followed = run(warm_python, way_out, tmp_path)
    assert followed.returncode == 0, followed.stderr


@pytest.mark.slow
def test_a_stopped_run_goes_on(place: pathlib.Path, warm_python: pathlib.Path, tmp_path: pathlib.Path):
    command = f"{TRAIN} --workdir={tmp_path}/run"
    assert not run(warm_python, command.replace("steps=20", "steps=10"), place).returncode
    result = run(warm_python, command, place)
    assert result.returncode == 0, result.stderr
    assert "step 20/20" in result.stdout
    assert "step 10/" not in result.stdout
