r"""Ranking beside LightGBM's lambdarank: queries whose documents have a relevance that follows from features.

  python -m benchmarks.ranking --scratch=DIR [--json=FILE]

The usefulness of a document is a sum of waves, products and steps of numbers, of effects of a category, and
of noise; relevance, 0 to 4, is cut out of it, more rarely the higher it is. A number that is the same for
all documents of a query changes what another one is worth. `few` has 400 queries to learn from, `many` 2,400;
`steep` has many irrelevant documents and groups of very different sizes.

NDCG@10 of the test split stands beside that of the noiseless usefulness, which is nearly the best possible,
and of LightGBM, where it is installed: it gets the same columns, categories as such; leaves and learning rate
are chosen on the validation split, which also stops it.

What is done is not done again. Hardware: any. Duration: 10 to 20 minutes of CPU time.
"""

import csv
import dataclasses
import importlib
import importlib.util
import itertools
import json
import pathlib
from collections.abc import Mapping, Sequence

import keras
import numpy as np
from absl import app, flags

from benchmarks.commands import markdown, run_python
from pipeline.base.errors import answers_bad_input
from pipeline.configs import ranking
from pipeline.data.dataset import window
from pipeline.data.schema.feature_types import PADDING, Label
from pipeline.training.experiment.config import as_json, parse
from pipeline.training.experiment.defaults import resolve
from pipeline.training.run import run
from pipeline.training.run.request import Request
from pipeline.training.tasks.registry import task_of

_SCRATCH = flags.DEFINE_string("scratch", None, "Directory for datasets and runs.", required=True)
_JSON = flags.DEFINE_string("json", None, "File to write the figures to.")
_TABLES = flags.DEFINE_list("tables", ["few", "many", "steep"], "Tables to draw.")
_LOSSES = flags.DEFINE_list(
    "losses",
    ["", "pipeline.training.tasks.ranking:lambda_loss"],
    "Values of config.loss.name; empty: the task's own.",
)

_METRICS = ("ndcg_at_10", "ndcg_at_1", "mrr")
_NUMBERS, _KINDS = 10, 12
_COLUMNS = ("query", *(f"x{each}" for each in range(_NUMBERS)), "kind", "relevance")
_LABEL = Label(name="relevance", task="ranking")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shape:
    """How a table is drawn.

    Attributes:
      queries: of the train split; `documents` of each, from the least to the most.
      shares: where relevance 1 to 4 begins, as shares of the documents.
    """

    queries: int
    documents: tuple[int, int]
    noise: float
    shares: tuple[float, ...] = (0.5, 0.7, 0.85, 0.95)


_SHAPES = {
    "few": Shape(queries=400, documents=(5, 30), noise=0.5),
    "many": Shape(queries=2400, documents=(5, 30), noise=0.5),
    "steep": Shape(queries=600, documents=(1, 60), noise=1.0, shares=(0.8, 0.9, 0.95, 0.985)),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Split:
    """Documents in the order of their queries: numbers [documents, numbers], and the rest [documents]."""

    query: np.ndarray
    numbers: np.ndarray
    kind: np.ndarray
    useful: np.ndarray  # without noise
    relevance: np.ndarray


def draw(shape: Shape) -> dict[str, Split]:
    """Draws the splits of a table."""
    rng = np.random.default_rng(shape.queries)
    effects = rng.normal(size=_KINDS)
    sizes = {"train": shape.queries, "validation": max(100, shape.queries // 5), "test": 600}
    found, edges = {}, None
    for split, queries in sizes.items():
        query = np.repeat(np.arange(queries), rng.integers(*shape.documents, queries, endpoint=True))
        x = rng.normal(size=(len(query), _NUMBERS))
        x[:, 0] = rng.normal(size=queries)[query]  # of the query
        kind = rng.integers(0, _KINDS, len(query))
        useful = (
            np.sin(2 * x[:, 1])
            + x[:, 2] * np.tanh(x[:, 0])
            + 0.7 * x[:, 3] * x[:, 4]
            + 0.8 * (x[:, 5] > 0.5)
            - 0.4 * np.abs(x[:, 6])
            + 0.7 * effects[kind]
        )
        noisy = useful + shape.noise * rng.normal(size=len(query))
        edges = np.quantile(noisy, shape.shares) if edges is None else edges
        relevance = np.searchsorted(edges, noisy)
        found[split] = Split(query=query, numbers=x, kind=kind, useful=useful, relevance=relevance)
    return found


def metrics(split: Split, scores: np.ndarray) -> dict[str, float]:
    """Metrics of scores [documents], by the same code as those of a run."""
    place = np.arange(len(split.query)) - np.searchsorted(split.query, split.query)
    shape = (split.query[-1] + 1, place.max() + 1)
    labels, padded = np.full(shape, PADDING), np.zeros(shape)
    labels[split.query, place], padded[split.query, place] = split.relevance, scores
    accumulator = task_of(_LABEL).accumulator(_LABEL)
    accumulator.update(labels, padded)
    found = accumulator.result()
    return {key: found[key] for key in _METRICS}


@answers_bad_input
def main(argv: Sequence[str]) -> None:
    del argv
    scratch, found = pathlib.Path(_SCRATCH.value).absolute(), {}
    for name in _TABLES.value:
        splits = draw(_SHAPES[name])
        dataset = _dataset(splits, scratch / name)
        found[f"{name}, without noise"] = metrics(splits["test"], splits["test"].useful)
        if importlib.util.find_spec("lightgbm"):
            found[f"{name}, LightGBM"] = lightgbm(splits)
        for loss in _LOSSES.value:
            title = f"{name}, {loss.rpartition(':')[2] or 'ranking'}"
            found[title] = _trained(dataset, scratch / "runs" / title, loss)
        print(markdown(found, _METRICS), flush=True)
    if _JSON.value:
        pathlib.Path(_JSON.value).write_text(json.dumps(found, indent=2))


def lightgbm(splits: Mapping[str, Split]) -> dict[str, float]:
    """LightGBM's lambdarank, with the leaves and the rate that are the best on the validation split."""
    lgb = importlib.import_module("lightgbm")  # no package of the requirements

    def columns(split: Split) -> np.ndarray:
        return np.column_stack([split.numbers, split.kind])

    sets = {
        name: lgb.Dataset(
            columns(each), each.relevance, group=np.bincount(each.query), categorical_feature=[_NUMBERS]
        )
        for name, each in splits.items()
        if name != "test"
    }
    best = None
    for leaves, rate in itertools.product((7, 15, 31), (0.03, 0.1)):
        options = {
            "objective": "lambdarank",
            "metric": "ndcg",
            "eval_at": [10],
            "num_leaves": leaves,
            "learning_rate": rate,
            "verbosity": -1,
            "seed": 0,
            "num_threads": 1,  # more only wait for each other on a busy machine
            "feature_pre_filter": False,
        }
        booster = lgb.train(
            options,
            sets["train"],
            2000,
            valid_sets=[sets["validation"]],
            callbacks=[lgb.early_stopping(50, verbose=False)],
        )
        scored = metrics(splits["validation"], booster.predict(columns(splits["validation"])))["ndcg_at_10"]
        if best is None or scored > best[0]:
            best = scored, booster
    return metrics(splits["test"], best[1].predict(columns(splits["test"])))


def _trained(dataset: pathlib.Path, workdir: pathlib.Path, loss: str) -> dict[str, float]:
    """Trains, or goes on; returns the metrics of the test split."""
    keras.utils.clear_session(free_memory=False)  # layers are named as in a process of its own
    config, opened = ranking.get_config(), window.open_window([str(dataset)])
    config.loss.name = loss
    request = Request(
        experiment=parse(resolve(as_json(config.to_dict()), opened).values),
        config_file="pipeline/configs/ranking.py",
        dataset=opened,
        workdir=workdir,
        strategy="one_device",
    )
    found = run.train(request)
    return {key: found[key] for key in _METRICS}


def _dataset(splits: Mapping[str, Split], folder: pathlib.Path) -> pathlib.Path:
    """Writes the documents as a user has them, and converts them; returns the dataset."""
    output, schema = folder / "1.0.0", folder / "schema.json"
    if (output / "manifest.json").exists():
        return output
    folder.mkdir(parents=True, exist_ok=True)
    for name, split in splits.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(_COLUMNS)
            columns = (split.query, split.numbers, split.kind, split.relevance)
            writer.writerows(
                [f"{name} {query}", *(f"{each:.6f}" for each in numbers), f"kind {kind}", relevance]
                for query, numbers, kind, relevance in zip(*columns, strict=True)
            )
    inputs = [f"--input={name}={folder}/{name}.csv" for name in splits]
    label = ("--label=relevance", "--group=query")
    run_python("-m", "beam_jobs.infer_schema", *inputs, *label, f"--output={schema}", "--overwrite")
    run_python(
        "-m", "beam_jobs.convert", *inputs, f"--schema={schema}", f"--output={output}", "--layout=blocks"
    )
    return output


if __name__ == "__main__":
    app.run(main)
