"""What docs/troubleshooting.md says of the usual situations: its words come, and its way out leads on."""

import gzip
import json
import os
import pathlib
import random
import shutil
import subprocess

import pytest

from tests.house.docs import documents, messages, reference

ROOT = documents.ROOT
CONVERT = "beam_jobs.convert --schema={}/schema.json"
CONFIG = "--config=pipeline/configs/tabular.py --config.train.steps=20 --nobaseline"
TRAIN = f"pipeline.train {CONFIG} --dataset={{}}/shop/1"
LOSS = "keras.losses:BinaryCrossentropy"
STOPS = TRAIN.replace("pipeline/configs/tabular.py", "{}/stops.py")
MODEL = "import keras\ndef build(numeric, outputs):\n    x = keras.Input((numeric,), name='numeric')\n"
MODEL += "    return keras.Model({'numeric': x}, keras.layers.Dense(outputs, dtype='float32')(x))\n"
OWN_CONFIG = """
from pipeline.configs import tabular

def get_config():
    config = tabular.get_config()
    config.callbacks = ({"class_name": "EarlyStopping", "config": {"monitor": "val_loss"}},)
    return config
"""

INFER = "beam_jobs.infer_schema --output={}/new.json"

# The words of the page; what brings them up; the way out. {} is a folder for all commands of a case.
SITUATIONS = {
    "format": (
        "--format: received nothing, and inputs …",
        "beam_jobs.infer_schema --input={}/shop.dat --label=bought --output={}/new.json",
        "beam_jobs.infer_schema --input={}/shop.dat --label=bought --output={}/new.json --format=csv",
    ),
    "label": (
        "--label, --ignore or --numeric: received '…'",
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
    # From here on messages that were drawn by seed from all that the code can raise.
    "a group without a label": (
        "--group=…: received --label=none, --ignore=none",
        f"{INFER} --input={{}}/tags.jsonl --group=query",
        f"{INFER} --input={{}}/tags.jsonl --group=query --label=relevance --ignore=tags",
    ),
    "lists in a group": (
        "schema feature '…': received a feature of kind …",
        f"{INFER} --input={{}}/tags.jsonl --group=query --label=relevance",
        f"{INFER} --input={{}}/tags.jsonl --group=query --label=relevance --ignore=tags",
    ),
    "a name in capitals": (
        "--name: received …",
        f"{INFER} --input={{}}/shop.csv --label=bought --name=Shop",
        f"{INFER} --input={{}}/shop.csv --label=bought --name=shop",
    ),
    "words as a number": (
        "--task=…: received … different values such as …",
        f"{INFER} --input={{}}/tags.jsonl --label=city --task=regression",
        f"{INFER} --input={{}}/tags.jsonl --label=city --task=multiclass",
    ),
    "no value": (
        "--task=…: received no value in any of … rows",
        f"{INFER} --input={{}}/wide.csv --label=extra --task=regression",
        f"{INFER} --input={{}}/wide.csv --label=age --task=regression",
    ),
    "lists": (
        "--label=…: received lists of up to … values",
        f"{INFER} --input={{}}/tags.jsonl --label=tags --task=binary",
        f"{INFER} --input={{}}/tags.jsonl --label=tags --task=multilabel",
    ),
    "folders": (
        "--input=…: received folders alone, such as …",
        f"{INFER} --input={{}}/up --label=bought",
        f"{INFER} --input={{}}/up/*/* --label=bought",
    ),
    "packed": (
        "input …: received compressed bytes",
        f"{INFER} --input={{}}/packed.csv --label=bought",
        f"{INFER} --input={{}}/packed.csv.gz --label=bought",
    ),
    "cut": (
        "input …: received bytes that do not read (…)",
        f"{INFER} --input={{}}/cut.csv.gz --label=bought",
        f"{INFER} --input={{}}/packed.csv.gz --label=bought",
    ),
    "an unknown store": (
        "--input=…: received …",
        f"{INFER} --input=nowhere://bucket/shop.csv --label=bought",
        f"{INFER} --input={{}}/shop.csv --label=bought",
    ),
    "a new column": (
        "input …: received column …, which the schema does not know",
        f"{CONVERT} --input={{}}/wide.csv --output={{}}/wide",
        "beam_jobs.convert --schema={}/wide.json --input={}/wide.csv --output={}/wide",
    ),
    "another delimiter": (
        "input …: received column …, which the schema does not know",
        f"{CONVERT} --input={{}}/semicolons.csv --output={{}}/out --delimiter=,",
        f"{CONVERT} --input={{}}/semicolons.csv --output={{}}/out --delimiter=;",
    ),
    "leaks of blocks": (
        "--severity=leakage=error: received --layout=blocks",
        f"{CONVERT} --input={{}}/shop.csv --output={{}}/out --layout=blocks --severity=leakage=error",
        f"{CONVERT} --input={{}}/shop.csv --output={{}}/out --layout=blocks",
    ),
    "files of somebody else": (
        "--output=…: received a directory that holds …",
        f"{CONVERT} --input={{}}/shop.csv --output={{}}",
        f"{CONVERT} --input={{}}/shop.csv --output={{}}/shop_again",
    ),
    "a dataset in a store": (
        "dataset …: received no such directory",
        f"pipeline.train {CONFIG} --dataset=gs://bucket/shop/1 --workdir={{}}/run",
        f"{TRAIN} --workdir={{}}/run",
    ),
    "a key of the input": (
        "--keys: received '…'",
        "beam_jobs.predict --model={}/export --input={}/shop.csv --output={}/out --keys=aje",
        "beam_jobs.predict --model={}/export --input={}/shop.csv --output={}/out --keys=age",
    ),
    "a metric": (
        "--metrics: received …",
        "pipeline.evaluate --model={}/export --dataset={}/shop/1 --metrics=f11",
        "pipeline.evaluate --model={}/export --dataset={}/shop/1 --metrics=f1",
    ),
    "first weights": (
        "--config.init.source=…: received no such file or directory",
        f"{TRAIN} --workdir={{}}/run --config.init.source={{}}/no_run",
        f"{TRAIN} --workdir={{}}/run --config.init.source={{}}/first",
    ),
    "a packed file to index": (
        "file …: received a gzip file",
        "pipeline.index {}/packed.tfrecord",
        "pipeline.index {}/plain.tfrecord",
    ),
    "a damaged record": (
        "dataset …: received a damaged record: …",
        "pipeline.replay --workdir={}/first --step=3 --dataset={}/damaged/1",
        "pipeline.replay --workdir={}/first --step=3 --dataset={}/shop/1",
    ),
    "a name for a group of keys": (
        "--…: received …",
        f"{TRAIN} --workdir={{}}/run --config.optimizer=adam",
        f"{TRAIN} --workdir={{}}/run --config.optimizer.name=adam",
    ),
    "an export in a store": (
        "--model: received …",
        "pipeline.evaluate --model=gs://bucket/export --dataset={}/shop/1",
        "pipeline.evaluate --model={}/export --dataset={}/shop/1",
    ),
    "smoothing beside a loss": (
        "--config.train.label_smoothing: received …",
        f"{TRAIN} --workdir={{}}/run --config.loss.name={LOSS} --config.train.label_smoothing=0.1",
        f"{TRAIN} --workdir={{}}/run --config.loss.name={LOSS}(label_smoothing=0.1)",
    ),
    "a metric without a validation": (
        "…, monitor: received …, …",
        f"{STOPS} --workdir={{}}/run --config.evaluation.split=",
        f"{STOPS} --workdir={{}}/run --config.evaluation.split=validation",
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
    (folder / "stops.py").write_text(OWN_CONFIG)
    write_other_forms(folder, (folder / "shop.csv").read_text())
    for command in (
        "beam_jobs.infer_schema --input={}/shop.csv --label=bought --output={}/schema.json",
        f"{CONVERT} --input={{}}/shop.csv --output={{}}/shop/1",
        f"{TRAIN} --workdir={{}}/first",
        "pipeline.export --workdir={}/first --output={}/export",
    ):
        assert not run(warm_python, command, folder).returncode
    damage(folder)
    schema = json.loads((folder / "schema.json").read_text())
    ignored = {"ignore": {**schema.get("ignore", {}), "extra": "not known then"}}
    (folder / "wide.json").write_text(json.dumps(schema | ignored))
    return folder


def write_other_forms(folder: pathlib.Path, shop: str) -> None:
    """The shop's rows in other files, and those with a column more, and a table of lists and groups."""
    wide = shop.replace("\n", ",extra\n", 1).replace("yes\n", "yes,\n").replace("no\n", "no,\n")
    (folder / "wide.csv").write_text(wide)
    (folder / "semicolons.csv").write_text(shop.replace(",", ";"))
    (folder / "up/date").mkdir(parents=True)
    (folder / "up/date/shop.csv").write_text(shop)
    packed = gzip.compress(shop.encode())
    for name, content in {"packed.csv": packed, "packed.csv.gz": packed, "cut.csv.gz": packed[:900]}.items():
        (folder / name).write_bytes(content)
    cities = ("Bern", "Oslo", "Rome")
    rows = [
        {
            "query": f"q{number // 6}",
            "relevance": number % 4,
            "price": number * 7 % 101,
            "city": cities[number * 5 % 3],
            "tags": [*cities[: 1 + number % 2]],
        }
        for number in range(600)
    ]
    (folder / "tags.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def damage(folder: pathlib.Path) -> None:
    """Copies the dataset and changes each fiftieth byte of its training file; packs that file, too."""
    (shard,) = (folder / "shop/1").glob("*-train.tfrecord-*")
    content = shard.read_bytes()
    (folder / "plain.tfrecord").write_bytes(content)
    (folder / "packed.tfrecord").write_bytes(gzip.compress(content))
    copied = shutil.copytree(folder / "shop", folder / "damaged") / "1" / shard.name
    copied.chmod(0o644)
    copied.write_bytes(bytes(byte ^ (at % 50 == 49) for at, byte in enumerate(content)))


def run(python: pathlib.Path, command: str, folder: pathlib.Path) -> subprocess.CompletedProcess:
    """Runs `python -m command`; a word PYTHONPATH=VALUE is a variable of its environment. Without one, Python
    starts warm.
    """
    words = command.replace("{}", str(folder)).split()
    variables = dict(word.split("=", 1) for word in words if word.startswith("PYTHONPATH="))
    flags = [word for word in words if not word.startswith("PYTHONPATH=")]
    environment = os.environ | variables
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
