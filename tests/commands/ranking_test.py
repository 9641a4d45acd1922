"""Ranking by group, from raw rows in any order to a served model that scores rows."""

import csv
import json
import pathlib

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn import metrics as sklearn_metrics

from tests.shared.fixtures.raw_data import RunBinary

CONFIG = "pipeline/configs/ranking.py"
SIZES = {"train": 300, "validation": 60, "test": 63}  # groups; the last batch of an evaluation is not full
LONGEST = 9
COLUMNS = ("query", "x", "z", "kind", "relevance")


def rows(split: str) -> list[dict[str, object]]:
    """What is relevant follows from the row's numbers and kind; rows of a group stand anywhere."""
    draw, found = np.random.default_rng([*SIZES].index(split)), []
    for query in range(SIZES[split]):
        for _ in range(LONGEST if not query else draw.integers(1, LONGEST + 1)):
            x, z, kind = draw.normal(), draw.normal(), draw.choice(["a", "b", "c"])
            useful = np.sin(2 * x) + z + (kind == "b") + 0.2 * draw.normal()
            found.append(
                {
                    "query": f"{split} {query}",
                    "x": f"{x:.5f}",
                    "z": "" if draw.random() < 0.03 else f"{z:.5f}",
                    "kind": kind,
                    "relevance": int(np.clip(np.floor(useful), 0, 3)),
                }
            )
    return [found[at] for at in draw.permutation(len(found))]


def write(path: pathlib.Path, written: list[dict[str, object]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(written)


def read(path: pathlib.Path) -> dict:
    return json.loads(path.read_text())


def by_scikit_learn(labels: list[int], queries: list[str], scores: np.ndarray) -> dict[str, float]:
    """Metrics of rows in any order; scikit-learn refuses groups of one row, so one worth nothing is added."""
    found = {"ndcg_at_10": [], "ndcg_at_1": [], "mrr": []}
    for query in dict.fromkeys(queries):
        own = np.array([query == each for each in queries])
        relevance, given = np.array(labels)[own], scores[own]
        gains, ranked = [[*(2.0**relevance - 1), 0.0]], [[*given, given.min() - 1]]
        found["ndcg_at_10"].append(sklearn_metrics.ndcg_score(gains, ranked, k=10))
        found["ndcg_at_1"].append(sklearn_metrics.ndcg_score(gains, ranked, k=1))
        at = np.flatnonzero(relevance[np.argsort(-given, kind="stable")])
        found["mrr"].append(1 / (at[0] + 1) if len(at) else 0.0)
    return {key: float(np.mean(each)) for key, each in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["rows", "blocks"])
def test_from_raw_rows_to_served_scores(layout: str, tmp_path: pathlib.Path, run_binary: RunBinary):
    def run(module: str, *flags: object, fails: bool = False) -> str:
        done = run_binary(module, *flags)
        assert bool(done.code) == fails, f"{module}: {done.out}\n{done.err}"
        return done.out + done.err

    raw = {split: tmp_path / f"{split}.csv" for split in SIZES}
    good = {split: rows(split) for split in SIZES}
    for split, path in raw.items():
        write(path, good[split])
    schema, data, work, export = (tmp_path / each for each in ("schema.json", "data", "work", "model"))
    infer = ("beam_jobs.infer_schema", f"--input={raw['train']}", "--label=relevance", f"--output={schema}")
    told = run(*infer, "--group=query")
    assert f"'query': {SIZES['train']:,} groups, of " in told
    assert read(schema)["group"] == {"column": "query", "length": LONGEST}
    assert "--group=COLUMN" in run(*infer, "--overwrite", "--task=ranking", fails=True)

    ugly = {"query": "test 0", "x": 0, "z": 0, "kind": "a", "relevance": 1}
    bad = [{**ugly, "query": " "}, {**ugly, "relevance": "best"}, {**ugly, "relevance": -1}]
    write(raw["test"], [*good["test"], *bad])
    converted = tmp_path / "convert.json"
    run(
        *("beam_jobs.convert", *(f"--input={split}={path}" for split, path in raw.items())),
        *(f"--schema={schema}", f"--output={data}", f"--layout={layout}"),
        *("--max_rejected_fraction=0.02", f"--json={converted}"),
    )
    summary = read(converted)
    assert {split: each["rows"] for split, each in summary["splits"].items()} == SIZES
    assert summary["groups"] == sum(SIZES.values())
    assert summary["rows_written"] == sum(map(len, good.values()))
    assert summary["rows_rejected"] == len(bad)
    assert "sound" in run("beam_jobs.verify", data)

    train = ("pipeline.train", f"--config={CONFIG}", f"--dataset={data}", f"--workdir={work}")
    run(
        *train,
        *("--config.model.hidden=32", "--config.model.members=2", "--config.train.steps=150"),
        *("--precision=float32", "--strategy=mirrored", "--logical_devices=2"),
        *("--config.evaluation.global_batch=16", "--config.global_batch=32"),
    )
    assert (work / "report.html").stat().st_size
    run("pipeline.export", f"--workdir={work}", f"--output={export}")
    evaluated = tmp_path / "evaluated.json"
    run("pipeline.evaluate", f"--model={export}", f"--dataset={data}", "--batch=10", f"--json={evaluated}")
    found, trained = read(evaluated), read(work / "evaluation.json")
    assert found["examples"] == SIZES["test"]
    assert found["ndcg_at_10"] > 0.93 * (1 - found["irrelevant_groups"])
    # The run's own evaluation, on two replicas with padded batches.
    keys = ("loss", "ndcg", "ndcg_at_10", "ndcg_at_5", "ndcg_at_1", "mrr", "irrelevant_groups")
    assert {key: trained[key] for key in keys} == pytest.approx({key: found[key] for key in keys}, rel=1e-4)

    # Raw rows again: a score for each, in the order of the file, whatever their groups are.
    write(raw["test"], good["test"])
    out = tmp_path / "predictions"
    run("beam_jobs.predict", f"--model={export}", f"--input={raw['test']}", f"--output={out}", "--keys=query")
    table = pq.read_table(next(out.glob("*.parquet")))
    assert table["query"].to_pylist() == [row["query"] for row in good["test"]]
    labels = [row["relevance"] for row in good["test"]]
    expected = by_scikit_learn(
        labels, table["query"].to_pylist(), table["score"].to_numpy().astype("float64")
    )
    assert {key: found[key] for key in expected} == pytest.approx(expected, abs=1e-9)

    # A run goes on, and what does not fit says so in one line.
    again = (*train[:3], f"--workdir={tmp_path / 'other'}", "--config.train.steps=1")
    keras_loss = run(*again, "--config.loss.name=Huber", fails=True)
    assert "--config.loss.name=Huber: received a loss of single numbers, for ranking" in keras_loss
    weighted = run(*again, "--config.train.example_weights=x", fails=True)
    assert "an example is a group of rows" in weighted
