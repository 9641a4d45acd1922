"""Retrieval, from a raw file of choices to a served model that answers names of items."""

import json
import pathlib

import keras
import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.special

from pipeline.data.dataset import manifest
from pipeline.data.dataset.selection import select
from pipeline.exporting import scoring
from pipeline.exporting.raw_inputs import raw_inputs
from pipeline.exporting.scoring import StoredRows
from tests.shared.fixtures.raw_data import RunBinary

CONFIG = "pipeline/configs/retrieval.py"
SIZES = {"train": 2000, "validation": 200, "test": 203}  # the last batch of an evaluation is not full
ITEMS = [f"n° {number}, of 40" for number in range(40)] + ["once"]  # names with commas
K = 7


def rows(split: str) -> list[dict]:
    """What is chosen follows from the latest item and the hour; some histories are empty or too long."""
    draw = np.random.default_rng([*SIZES].index(split))
    found = []
    for _ in range(SIZES[split]):
        history = draw.integers(0, 40, draw.integers(0, 7)).tolist()
        hour = int(draw.integers(0, 24))
        chosen = (
            (history[0] + 1 if history else hour // 2) % 40 if draw.random() < 0.9 else draw.integers(0, 40)
        )
        found.append({"hour": hour, "last": [ITEMS[at] for at in history], "item": ITEMS[chosen]})
    if split == "train":
        found[0]["item"] = "once"
    return found


def read(path: pathlib.Path) -> dict:
    return json.loads(path.read_text())


def ranked(items: list[list[str]], chosen: list[str]) -> np.ndarray:
    """The place of the chosen item among the answers, from 1 on; infinite where it is not among them."""
    return np.array(
        [row.index(name) + 1 if name in row else np.inf for row, name in zip(items, chosen, strict=True)]
    )


@pytest.mark.slow
@pytest.mark.parametrize(("model", "layout"), [("two_tower", "rows"), ("sequence_recommender", "blocks")])
def test_from_a_raw_file_to_served_names(
    model: str, layout: str, tmp_path: pathlib.Path, run_binary: RunBinary
):
    def run(module: str, *flags: object, fails: bool = False) -> str:
        done = run_binary(module, *flags)
        assert bool(done.code) == fails, f"{module}: {done.out}\n{done.err}"
        return done.out + done.err

    raw = {split: tmp_path / f"{split}.jsonl" for split in SIZES}
    for split, path in raw.items():
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows(split)))
    with raw["test"].open("a") as file:
        for ugly in ({"item": ""}, {"item": "never seen"}, {"hour": 3, "last": [], "item": None}):
            file.write(json.dumps({"hour": 3, "last": [], **ugly}) + "\n")
    inputs = [f"--input={split}={path}" for split, path in raw.items()]
    schema_file, data, work, export = (tmp_path / each for each in ("schema.json", "data", "work", "model"))
    run(
        "beam_jobs.infer_schema",
        *(inputs[0], "--label=item", "--task=retrieval", f"--output={schema_file}"),
    )
    schema = read(schema_file)
    features = {each["name"]: each for each in schema["features"]}
    assert sorted(features["item"]["classes"]) == sorted(ITEMS)
    assert features["last"]["vocabulary"] == features["item"]["classes"]
    features["last"]["length"] = 4  # so that some lists are too long
    schema_file.write_text(json.dumps(schema))
    converted = tmp_path / "convert.json"
    convert = (f"--layout={layout}", "--max_rejected_fraction=0.02", f"--json={converted}")
    run("beam_jobs.convert", *inputs, f"--schema={schema_file}", f"--output={data}", *convert)
    assert read(converted)["rows_rejected"] == 3

    settings = (
        *(f"--config.model.k={K}", "--config.model.negatives=batch", "--config.global_batch=32"),
        *("--config.train.epochs=15", "--config.optimizer.learning_rate=1e-2"),
        *(
            "--precision=float32",
            "--strategy=mirrored",
            "--logical_devices=2",
            "--config.evaluation.global_batch=64",
        ),
    )
    train = ("pipeline.train", f"--config={CONFIG}", f"--dataset={data}", f"--workdir={work}", *settings)
    run(*train, f"--config.model.name={model}")
    assert (work / "report.html").stat().st_size
    run("pipeline.export", f"--workdir={work}", f"--output={export}")
    evaluated = tmp_path / "evaluated.json"
    run("pipeline.evaluate", f"--model={export}", f"--dataset={data}", "--batch=64", f"--json={evaluated}")
    found = read(evaluated)
    assert found["examples"] == SIZES["test"]
    assert found["recall_at_10"] > 0.7

    # The run's own evaluation, on two replicas with padded batches; its batches are others.
    trained = read(work / "evaluation.json")
    keys = ("loss", "recall_at_1", "recall_at_10", "mrr", "ndcg_at_10")
    assert {key: trained[key] for key in keys} == pytest.approx({key: found[key] for key in keys}, rel=1e-4)

    # The same of the scores of all items, which `model.keras` gives to NumPy.
    dataset = manifest.open_dataset(data)
    opened, loaded = scoring.open_model(export, dataset), keras.models.load_model(export / "model.keras")

    def ask(part: StoredRows) -> tuple[np.ndarray, ...]:
        raw = raw_inputs(part.inputs_of(opened.schema), opened.schema)
        scores = loaded(opened.module.signatures["model_inputs"](**raw), training=False)
        return part.labels(opened.label), opened.evaluated(part), scores.numpy()

    parts = scoring.answers(select(dataset, "test"), ask, batch=64, title="")
    labels, ranks, scores = map(np.concatenate, zip(*parts, strict=True))
    own = scores[np.arange(len(labels)), labels]
    places = 1 + (scores > own[:, None]).sum(axis=1)
    np.testing.assert_array_equal(ranks[:, 1] + 1, places)
    logs = scipy.special.log_softmax(scores.astype("float64"), axis=1)[np.arange(len(labels)), labels]
    np.testing.assert_allclose(ranks[:, 0], logs, rtol=1e-4, atol=1e-5)
    expected = {
        "loss": -np.mean(ranks[:, 0].astype("float64")),
        "mrr": np.mean(1 / places),
        "recall_at_1": np.mean(places <= 1),
        "recall_at_10": np.mean(places <= 10),
        "ndcg_at_10": np.mean(np.where(places <= 10, 1 / np.log2(places + 1), 0)),
    }
    assert {key: found[key] for key in expected} == pytest.approx(expected, rel=1e-9)

    # Raw files again: each good row has the names of its best items, in the order of the file.
    out = tmp_path / "predictions"
    run("beam_jobs.predict", f"--model={export}", f"--input={raw['test']}", f"--output={out}")
    table = pq.read_table(next(out.glob("*.parquet")))
    answers, scores = table["items"].to_pylist()[: SIZES["test"]], np.array(table["scores"].to_pylist())
    assert {len(row) for row in answers} == {K}
    assert (np.diff(scores, axis=1) <= 0).all()
    found_at = ranked(answers, [row["item"] for row in rows("test")])
    assert np.mean(found_at <= 1) == pytest.approx(found["recall_at_1"])
    served = {tuple(sorted(places[places <= K])), tuple(sorted(found_at[found_at <= K]))}
    assert len(served) == 1, "ranks of the evaluation and of the served names differ"

    # What does not fit says so in one line.
    one = (f"--workdir={tmp_path / 'one'}", "--config.global_batch=1", "--config.model.negatives=batch")
    assert "--config.global_batch: received 1 example at a time" in run(*train[:3], *one, fails=True)
