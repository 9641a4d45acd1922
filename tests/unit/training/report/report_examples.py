"""Training runs for the report's tests, written with the same leaves that real runs are."""

import dataclasses
import hashlib
import json
import math
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.dataset import records
from pipeline.data.dataset import statistics as statistics_lib
from pipeline.data.dataset.manifest import File, Manifest, Shard
from pipeline.data.dataset.statistics import FeatureStatistics, NumericSummary, SplitStatistics, ValueCounts
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import Categorical, Label, Numeric
from pipeline.data.schema.schema import Schema

DIGEST = "5d41402abc4b2a76b9719d911017c592"
BINARY_LABEL = Label(name="income", task="binary", classes=("<=50K", ">50K"))
REJECTED = (
    {"source": "adult.csv", "row": 17, "column": "age", "reason": "unparsable number", "raw": "forty"},
    {"source": "adult.csv", "row": 2048, "column": None, "reason": "wrong column count", "raw": "39, State"},
    {"source": "adult.csv", "row": 31, "column": "age", "reason": "unparsable number", "raw": "<script>"},
)


def numeric(name: str, values: np.ndarray, *, missing: int = 0) -> FeatureStatistics:
    return FeatureStatistics(
        name=name,
        dtype="float32",
        present=len(values),
        missing=missing,
        numeric=NumericSummary(
            minimum=float(values.min()),
            maximum=float(values.max()),
            mean=float(values.mean()),
            std=float(values.std()),
            zeros=int((values == 0).sum()),
            quantiles=tuple(np.quantile(values, np.linspace(0, 1, 101)).tolist()),
            distribution=tuple(np.quantile(values, np.linspace(0, 1, 257)).tolist()),
        ),
    )


def categorical(name: str, counts: Mapping[str, int], *, missing: int = 0) -> FeatureStatistics:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    values = ValueCounts(distinct=len(counts), values=tuple(ordered))
    return FeatureStatistics(
        name=name, dtype="string", present=sum(counts.values()), missing=missing, values=values
    )


def tabular_features(examples: int) -> list[tuple[Feature, FeatureStatistics]]:
    """Two numbers and a category, one of them hostile."""
    random = np.random.default_rng(1)
    ages = random.normal(38, 13, examples).clip(17, 90).round()
    gains = np.where(random.random(examples) < 0.9, 0, random.exponential(9_000, examples))
    jobs = {"Private": examples * 7 // 10, "<script>alert(1)</script>": examples // 10, "State & local": 5}
    missing = examples - sum(jobs.values())
    return [
        (Numeric(name="age"), numeric("age", ages)),
        (Numeric(name="capital_gain"), numeric("capital_gain", gains)),
        (Categorical(name="workclass", missing="mark"), categorical("workclass", jobs, missing=missing)),
    ]


def write_dataset(
    directory: pathlib.Path,
    *,
    label: Label = BINARY_LABEL,
    features: Sequence[tuple[Feature, FeatureStatistics]] | None = None,
    examples: int = 26_048,
) -> pathlib.Path:
    """A dataset directory as `convert` leaves it, without its shards: the report reads none."""
    features = tabular_features(examples) if features is None else features
    schema = Schema(name="adult", features=(label, *(feature for feature, _ in features)))
    counts = {name: examples // len(label.classes) for name in label.classes}
    measured = [statistics for _, statistics in features]
    measured += [categorical(label.name, counts)] if counts else []
    split = SplitStatistics(examples=examples, features={f.name: f for f in measured})
    content = statistics_lib.dumps({"train": split})
    digest = hashlib.sha256(content).hexdigest()
    shard = Shard(
        path="adult-train.tfrecord-00000-of-00001",
        bytes=7_340_032,
        sha256="0",
        records=examples,
        rows=examples,
    )
    held_out = dataclasses.replace(
        shard, path="adult-test.tfrecord-00000-of-00001", records=examples // 8, rows=examples // 8
    )
    manifest = Manifest(
        name="adult",
        version="1.0.0",
        layout="rows",
        schema_fingerprint=schema.fingerprint,
        plan_fingerprint="0",
        rows_read=examples + examples // 8 + len(REJECTED),
        rows_rejected=len(REJECTED),
        splits={"test": (held_out,), "train": (shard,)},
        files=(File(path=manifest_lib.STATISTICS_FILE_NAME, bytes=len(content), sha256=digest),),
    )
    (directory / "rejected").mkdir(parents=True)
    schema_lib.save(schema, directory / schema_lib.FILE_NAME)
    (directory / manifest_lib.STATISTICS_FILE_NAME).write_bytes(content)
    lines = "".join(json.dumps(row) + "\n" for row in REJECTED)
    (directory / manifest_lib.REJECTED_FILE_NAME).write_text(lines)
    (directory / "conversion.json").write_text(records.dumps_conversion(conversion()))
    (directory / manifest_lib.FILE_NAME).write_text(manifest_lib.dumps(manifest))
    return directory


def conversion() -> dict:
    return {
        "command": "python -m beam_jobs.convert --input=train=adult.csv --output=adult/1.0.0",
        "seconds": 21.4,
        "runner": "FnApiRunner",
        "workers": 2,
        "versions": {"python": "3.11.7", "apache-beam": "2.77.0"},
        "inputs": [{"path": "adult.csv", "split": "train", "bytes": 3_974_305}],
        "rejected_reasons": {"unparsable number": 2, "wrong column count": 1},
    }


def write_run(
    workdir: pathlib.Path, dataset: pathlib.Path, *, evaluation: Mapping | None, points: int = 40
) -> None:
    """A workdir as `train` leaves it; `evaluation` None and `points` 0: as it begins."""
    workdir.mkdir(parents=True, exist_ok=True)
    (workdir / "run.json").write_text(
        json.dumps(run(dataset, steps=points * 50, finished=evaluation is not None))
    )
    lines = "".join(json.dumps(log_line(i, points)) + "\n" for i in range(1, points + 1))
    (workdir / "history.jsonl").write_text(lines)
    if evaluation is not None:
        (workdir / "evaluation.json").write_text(json.dumps(evaluation))


def run(dataset: pathlib.Path, *, steps: int, finished: bool) -> dict:
    return {
        "command": "python -m pipeline.train --config=pipeline/configs/adult_wide_deep.py",
        "started": "2026-01-31T04:05:06+00:00",
        "dataset": str(dataset),
        "dataset_digest": DIGEST,
        "config_file": "pipeline/configs/adult_wide_deep.py",
        "config": {"batch": 256, "optimizer": {"learning_rate": 0.001}},
        "strategy": "mirrored",
        "replicas": 2,
        "devices": ["/device:CPU:0", "/device:CPU:1"],
        "precision": {"policy": "mixed_bfloat16", "reason": "this CPU multiplies bfloat16 natively (AMX)"},
        "jit_compile": False,
        "parameters": 123_456,
        "versions": {"python": "3.11.7", "tensorflow": "2.21.0", "keras": "3.15.1"},
        "machine": {"processor": "Xeon", "cores": 2, "memory_gb": 23.5, "platform": "Linux"},
        "steps": steps,
        "total_steps": steps,
        "finished": finished,
        "seconds": 93.2,
    }


def log_line(i: int, points: int) -> dict:
    progress = i / points
    line = {
        "step": i * 50,
        "epoch": progress * 3,
        "examples": i * 50 * 256,
        "loss": 0.3 + 0.4 * math.exp(-5 * progress) + 0.01 * math.sin(9 * i),
        "accuracy": 0.86 - 0.1 * math.exp(-5 * progress),
        "learning_rate": 1e-3,
        "examples_per_s": 41_000 + 900 * math.sin(i),
        "step_ms": 6.2,
        "input_wait": 0.021 + 0.01 * math.sin(i),
        "step_p50_ms": 6.0,
        "step_p95_ms": 7.5 + math.cos(i),
        "step_max_ms": 31.0,
        "gflops_per_s": (41_000 + 900 * math.sin(i)) * 250_000 / 1e9,
        "host_peak_mb": 812.4,
    }
    if i % 10 == 0:
        line["validation"] = {"loss": line["loss"] + 0.02, "accuracy": line["accuracy"] - 0.01, "auc": 0.9}
    return line


def binary_evaluation() -> dict:
    rates = np.linspace(0, 1, 100)
    return {
        "task": "binary",
        "split": "test",
        "examples": 16_281,
        "loss": 0.312,
        "accuracy": 0.8571,
        "auc": 0.9127,
        "confusion_matrix": [[11_600, 835], [1_491, 2_355]],
        "classes": list(BINARY_LABEL.classes),
        "roc": {"false_positive_rate": rates.tolist(), "true_positive_rate": (rates**0.17).tolist()},
    }


def multiclass_evaluation(classes: int, *, examples_a_class: int = 100) -> dict:
    random = np.random.default_rng(classes)
    matrix = np.zeros((classes, classes), dtype=int)
    for i in range(classes):
        right = int(examples_a_class * random.uniform(0.85, 1))
        matrix[i, i] = right
        wrong = random.integers(0, classes, examples_a_class - right)
        np.add.at(matrix[i], wrong, 1)
    return {
        "task": "multiclass",
        "split": "test",
        "examples": int(matrix.sum()),
        "loss": 0.0412,
        "accuracy": float(np.trace(matrix) / matrix.sum()),
        "confusion_matrix": matrix.tolist(),
        "classes": [f"class {i}" if classes > 10 else str(i) for i in range(classes)],
    }


def regression_evaluation() -> dict:
    random = np.random.default_rng(3)
    actual = random.normal(200_000, 60_000, 800)
    predicted = actual + random.normal(0, 25_000, 800)
    return {
        "task": "regression",
        "split": "test",
        "examples": 800,
        "loss": 6.2e8,
        "rmse": 25_012.3,
        "mae": 19_805.1,
        "r2": 0.8312,
        "predicted_vs_actual": np.stack([predicted, actual], axis=1).tolist(),
    }
