"""Texts, from raw files to a served model that learned a prefix: no word of a test text is known itself."""

import csv
import json
import pathlib

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.shared.fixtures.raw_data import RunBinary

CONFIG = "pipeline/configs/text.py"
LETTERS = np.array(list("aeioubdfgklmnprst"))


def write_texts(path: pathlib.Path, rows: int, *, seed: int) -> np.ndarray:
    """Writes rows of six random words; where the class is `yes`, three of them begin with `Xy`."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, rows)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "note", "answer"])
        for at, label in enumerate(labels):
            words = ["".join(draw.choice(LETTERS, 6)) for _ in range(6)]
            if label:
                words[::2] = ["Xy" + "".join(draw.choice(LETTERS, 4)) for _ in range(3)]
            writer.writerow([f"r{at}", " ".join(words), ("no", "yes")[label]])
    return labels


@pytest.mark.slow
def test_a_prefix_is_learned_and_served(tmp_path: pathlib.Path, run_binary: RunBinary):
    def run(module: str, *flags: object) -> str:
        done = run_binary(module, *flags)
        assert done.code == 0, f"{module}: {done.out}\n{done.err}"
        return done.out

    raw = {split: tmp_path / f"{split}.csv" for split in ("train", "validation", "test")}
    labels = {split: write_texts(path, 300, seed=seed) for seed, (split, path) in enumerate(raw.items())}
    inputs = [f"--input={split}={path}" for split, path in raw.items()]
    schema_file, data, work, model = (tmp_path / each for each in ("schema.json", "data", "work", "model"))
    label = ("--label=answer", "--ignore=id")
    run("beam_jobs.infer_schema", f"--input={raw['train']}", *label, f"--output={schema_file}")
    schema = json.loads(schema_file.read_text())
    [note] = [feature for feature in schema["features"] if feature["name"] == "note"]
    assert (note["pairs"], note["gap"], note["characters"]) == (True, 2, [3, 6])
    note["buckets"] = 1 << 14  # so that the tables are small
    schema_file.write_text(json.dumps(schema))
    run("beam_jobs.convert", *inputs, f"--schema={schema_file}", f"--output={data}")
    run(
        "pipeline.train",
        f"--config={CONFIG}",
        f"--dataset={data}",
        f"--workdir={work}",
        "--precision=float32",
    )
    run("pipeline.replay", f"--workdir={work}", "--step=5")
    run("pipeline.parity", f"--workdir={work}")
    run("pipeline.export", f"--workdir={work}", f"--output={model}")
    predicted = tmp_path / "predicted"
    run(
        "beam_jobs.predict",
        f"--model={model}",
        f"--input={raw['test']}",
        f"--output={predicted}",
        "--keys=id",
    )
    table = pq.read_table(predicted).to_pydict()
    found = dict(zip(table["id"], table["probabilities"], strict=True))
    answers = np.array([found[f"r{at}"] for at in range(300)]).reshape(300, -1)[:, -1] > 0.5
    accuracy = np.mean(answers == labels["test"])
    assert accuracy > 0.9
    evaluated = json.loads((work / "baselines.json").read_text())["network"]["accuracy"]["value"]
    assert accuracy == pytest.approx(evaluated, abs=1e-9)  # the same hashes in training and in serving
