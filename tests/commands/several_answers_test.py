"""Several answers a row, from raw files to a served model: multilabels, targets, lists of categories."""

import dataclasses
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from sklearn import metrics as sk

from pipeline.data.dataset import manifest
from pipeline.data.dataset.selection import select
from pipeline.data.schema import schema as schema_lib
from pipeline.exporting import scoring
from pipeline.exporting.raw_inputs import raw_inputs
from pipeline.exporting.requests import numpy_arrays
from pipeline.exporting.scoring import StoredRows
from tests.shared.fixtures.raw_data import RunBinary

CONFIG = "pipeline/configs/tabular.py"
TRAIN, TEST = 900, 203  # the last batch of an evaluation is not full
WORDS = ("crime", "drama", "opera", "war")
TAGS = ("1", "20", "old")
Row = Mapping[str, object]


def clean_rows(rows: int, seed: int) -> list[dict]:
    """Tags follow from x and the words of a row, amounts a and b from x and y."""
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(rows):
        x, y = draw.normal(size=2).round(3).tolist()
        words = draw.choice(WORDS, size=draw.integers(0, 7)).tolist()
        is_there = ("war" in words, x > 0, x + y > 0.5)
        tags = [tag for tag, there in zip(TAGS, is_there, strict=True) if there]
        a, b = 3.0 * x - y + draw.normal() * 0.1, 1e4 * (x + y) + 5e5 + draw.normal() * 100
        found.append({"x": x, "y": y, "words": words, "tags": tags, "a": round(a, 4), "b": round(b, 1)})
    return found


# What may stand where the tags do, and the tags; None: the row is rejected.
UGLY_TAGS = (
    (None, None),
    ([], []),
    (["old", "old"], ["old"]),
    ([["old"], ["1"]], ["1", "old"]),
    ([1, 20], ["1", "20"]),
    (["old", 1], ["1", "old"]),
    ("old", ["old"]),
    (["new"], None),
    (["old", None], None),
    ([{"old": 1}], None),
)
UGLY_TEXT = (
    ("", []),
    (" ", []),
    ("|old|", ["old"]),
    ("1||20", ["1", "20"]),
    ("old|old", ["old"]),
    ("old|new", None),
    ("old;1", None),
)


def as_jsonl(path: pathlib.Path, rows: Sequence[Row], *, is_ugly: bool) -> list[list[str] | None]:
    """Writes rows with tags; returns the tags of each, None where it must be rejected."""
    ugly = UGLY_TAGS if is_ugly else ()
    lines = [{**row, "tags": ugly[at][0] if at < len(ugly) else row["tags"]} for at, row in enumerate(rows)]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return [ugly[at][1] if at < len(ugly) else row["tags"] for at, row in enumerate(rows)]


def as_csv(path: pathlib.Path, rows: Sequence[Row], *, is_ugly: bool) -> list[list[str] | None]:
    ugly = UGLY_TEXT if is_ugly else ()
    lines = ["x,y,words,tags"]
    for at, row in enumerate(rows):
        tags = ugly[at][0] if at < len(ugly) else "|".join(row["tags"])
        lines.append(f"{row['x']},{row['y']},{'|'.join(row['words'])},{tags}")
    path.write_text("\n".join(lines) + "\n")
    return [ugly[at][1] if at < len(ugly) else row["tags"] for at, row in enumerate(rows)]


def as_columns(path: pathlib.Path, rows: Sequence[Row], *, is_ugly: bool) -> list[list[str] | None]:
    """A column of 0 and 1 for each tag; one that is missing rejects the row."""
    lines = ["x,y,words,t1,t20,told"]
    found: list[list[str] | None] = []
    for at, row in enumerate(rows):
        cells = [str(int(tag in row["tags"])) for tag in TAGS]
        if is_ugly and at < 3:
            cells[at] = ("", "2", "yes")[at]
        lines.append(f"{row['x']},{row['y']},{'|'.join(row['words'])},{','.join(cells)}")
        found.append(None if is_ugly and at < 3 else row["tags"])
    path.write_text("\n".join(lines) + "\n")
    return found


def as_targets(path: pathlib.Path, rows: Sequence[Row], *, is_ugly: bool) -> list[list[float] | None]:
    """Two numbers; one that is missing, or is none, rejects the row."""
    lines, found = ["x,y,words,a,b"], []
    for at, row in enumerate(rows):
        a, b = str(row["a"]), str(row["b"])
        if is_ugly and at < 4:
            a, b = ((a, ""), ("", b), ("", ""), (a, "much"))[at]
        lines.append(f"{row['x']},{row['y']},{'|'.join(row['words'])},{a},{b}")
        found.append(None if is_ugly and at < 4 else [row["a"], row["b"]])
    path.write_text("\n".join(lines) + "\n")
    return found


def multi_hot(tags: Sequence[Sequence[str]]) -> np.ndarray:
    return np.array([[tag in row for tag in TAGS] for row in tags], int)


def of_sets(labels: np.ndarray, p: np.ndarray) -> dict[str, float]:
    # A wrong certainty costs 16 nats, as in all of Penstock's losses.
    told = np.where(labels == 1, np.maximum(p, 1e-7), np.minimum(p.astype(float), 1 - 1e-7))
    losses = [sk.log_loss(labels[:, at], told[:, at]) for at in range(labels.shape[1])]
    return {
        "loss": float(np.mean(losses)),
        "accuracy": sk.accuracy_score(labels, p > 0.5),
        "auc": sk.roc_auc_score(labels, p, average="macro"),
        "micro_f1": sk.f1_score(labels, p > 0.5, average="micro"),
        "macro_f1": sk.f1_score(labels, p > 0.5, average="macro"),
    }


def of_targets(labels: np.ndarray, values: np.ndarray) -> dict[str, float]:
    values = values.astype(float)
    rmse = sk.root_mean_squared_error(labels, values, multioutput="raw_values")
    return {
        "loss": 1.0 - sk.r2_score(labels, values),
        "r2": sk.r2_score(labels, values),
        "mae": sk.mean_absolute_error(labels, values),
        "rmse": rmse.mean(),
        "rmse_a": rmse[0],
        "rmse_b": rmse[1],
        "r2_b": sk.r2_score(labels[:, 1], values[:, 1]),
    }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of label: how its raw files are written, and what it is worth."""

    write: Callable[..., list]
    suffix: str
    flags: tuple[str, ...]
    labels: Callable[[Sequence], np.ndarray]
    metrics: Callable[[np.ndarray, np.ndarray], dict[str, float]]
    columns: tuple[str, ...]  # of predictions
    reached: tuple[str, float]  # a metric, and the least of it
    layout: str = "rows"


KINDS = {
    "multilabel": Kind(
        write=as_jsonl,
        suffix=".jsonl",
        flags=("--label=tags", "--ignore=a,b"),
        labels=multi_hot,
        metrics=of_sets,
        columns=("probabilities",),
        reached=("auc", 0.97),
    ),
    "multilabel in text": Kind(
        write=as_csv,
        suffix=".csv",
        flags=("--label=tags", "--list_delimiter=|"),
        labels=multi_hot,
        metrics=of_sets,
        columns=("probabilities",),
        reached=("auc", 0.97),
        layout="blocks",
    ),
    "multilabel in columns": Kind(
        write=as_columns,
        suffix=".csv",
        flags=("--label=t1,t20,told", "--list_delimiter=words=|"),
        labels=multi_hot,
        metrics=of_sets,
        columns=("probabilities",),
        reached=("auc", 0.97),
    ),
    "several targets": Kind(
        write=as_targets,
        suffix=".csv",
        flags=("--label=a,b", "--list_delimiter=words=|"),
        labels=np.array,
        metrics=of_targets,
        columns=("value_a", "value_b"),
        reached=("r2", 0.95),
        layout="blocks",
    ),
}


def read(path: pathlib.Path) -> dict:
    return json.loads(path.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_from_raw_files_to_a_served_model(name: str, tmp_path: pathlib.Path, run_binary: RunBinary):
    kind = KINDS[name]
    raw = {split: tmp_path / f"{split}{kind.suffix}" for split in ("train", "validation", "test")}
    sizes = {"train": TRAIN, "validation": 200, "test": TEST}
    written = {
        split: kind.write(path, clean_rows(sizes[split], seed), is_ugly=split == "test")
        for seed, (split, path) in enumerate(raw.items())
    }
    good = {split: [label for label in labels if label is not None] for split, labels in written.items()}
    inputs = [f"--input={split}={path}" for split, path in raw.items()]

    def run(module: str, *flags: object) -> str:
        done = run_binary(module, *flags)
        assert done.code == 0, f"{module}: {done.out}\n{done.err}"
        return done.out

    schema_file, data, work, model = (tmp_path / each for each in ("schema.json", "data", "work", "model"))
    run("beam_jobs.infer_schema", inputs[0], f"--output={schema_file}", *kind.flags)
    schema = read(schema_file)
    [words] = [feature for feature in schema["features"] if feature["name"] == "words"]
    assert (words["kind"], words["length"], words["vocabulary"]) == ("categories", 6, [*WORDS])
    words["length"] = 4  # so that some lists are too long
    schema_file.write_text(json.dumps(schema))

    converted = tmp_path / "convert.json"
    convert = ("--max_rejected_fraction=0.1", f"--json={converted}", f"--layout={kind.layout}")
    told = run("beam_jobs.convert", *inputs, f"--schema={schema_file}", f"--output={data}", *convert)
    summary = read(converted)
    rejected = sum(label is None for label in written["test"])
    assert summary["rows_read"] == sum(sizes.values())
    assert (summary["rows_written"], summary["rows_rejected"]) == (summary["rows_read"] - rejected, rejected)
    assert {split: part["rows"] for split, part in summary["splits"].items()} == {
        split: len(labels) for split, labels in good.items()
    }
    long = sum(
        len(row["words"]) > 4
        for seed, split in enumerate(sizes)
        for row, label in zip(clean_rows(sizes[split], seed), written[split], strict=True)
        if label is not None
    )
    assert summary["truncated"] == {"words": long}
    assert f"'words': {long:,} rows have longer lists" in told
    run("beam_jobs.verify", data)

    run(
        "pipeline.train",
        *(f"--config={CONFIG}", f"--dataset={data}", f"--workdir={work}", "--config.train.epochs=24"),
        *("--strategy=mirrored", "--logical_devices=2", "--config.evaluation.global_batch=64"),
        *("--config.optimizer.learning_rate=1e-2", "--config.evaluation.every_epochs=12"),
    )
    assert (work / "report.html").stat().st_size
    run("pipeline.export", f"--workdir={work}", f"--output={model}")
    evaluated = tmp_path / "evaluated.json"
    run("pipeline.evaluate", f"--model={model}", f"--dataset={data}", "--batch=64", f"--json={evaluated}")

    # The export in this process gives the same answers to the same batches, and they are worth the same.
    dataset = manifest.open_dataset(data)
    opened = scoring.open_model(model, dataset)

    def ask(rows: StoredRows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        arrays = numpy_arrays(raw_inputs(rows.inputs_of(opened.schema), opened.schema))
        served = opened.module.signatures["raw"](**{each: tf.constant(of) for each, of in arrays.items()})
        [answers] = served.values()
        return rows.labels(opened.label), opened.predictions(rows), answers.numpy()

    parts = zip(*scoring.answers(select(dataset, "test"), ask, batch=64, title="served"), strict=True)
    labels, predictions, raw_answers = map(np.concatenate, parts)
    found = read(evaluated)
    expected = kind.metrics(labels, predictions)
    assert {key: found[key] for key in expected} == pytest.approx(expected, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(raw_answers, predictions, rtol=1e-5, atol=1e-6)
    assert found["examples"] == len(good["test"])
    key, least = kind.reached
    assert found[key] > least

    # The run's own evaluation, on two replicas with padded batches.
    trained = read(work / "evaluation.json")
    assert {key: trained[key] for key in expected} == pytest.approx(expected, rel=1e-3)

    # Raw files again: every good row has its prediction, in the order of the file.
    out = tmp_path / "predictions"
    run(
        "beam_jobs.predict",
        *(f"--model={model}", f"--input={raw['test']}", f"--output={out}", "--max_rejected_fraction=0.1"),
    )
    table = pq.read_table(next(out.glob("*.parquet")))
    predicted = np.stack([np.array(table[each].to_pylist()) for each in kind.columns], axis=-1)
    predicted = predicted.reshape(len(predicted), -1)
    numbers = np.array(table["row"].to_pylist())
    keep = [row for row, label in enumerate(written["test"]) if label is not None]
    first = 1 if kind.suffix == ".jsonl" else 2
    at = np.searchsorted(numbers, np.array(keep) + first)
    truth = kind.labels(good["test"])
    assert kind.metrics(truth, predicted[at]) == pytest.approx(expected, rel=1e-4)
    if "classes" in table.column_names:
        names = schema_lib.load(model / "schema.json").label.classes
        answers = [{names[at] for at in np.flatnonzero(row > 0.5)} for row in predicted]
        assert [set(each) for each in table["classes"].to_pylist()] == answers
    step = tmp_path / "step.json"
    run("pipeline.replay", f"--workdir={work}", "--step=3", f"--json={step}")
    assert read(step)["examples"][0]["label"]
