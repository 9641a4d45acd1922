r"""Retrieval beside what cannot be beaten: choices and sequences that are drawn from known probabilities.

  python -m benchmarks.retrieval --scratch=DIR [--json=FILE]

Choices: users and items have latent vectors, and an item is chosen with a probability of softmax(u · v + b),
where b makes some items popular. Two towers are trained against the items of the batch, with the correction
of their scores and without, and against all items. `recall@10` stands beside that of the true probabilities.
`slope` says by how much the scores of popular items are off: that of (score - log-probability) over the log
of an item's share, within users, over items that were chosen 30 times or more; 0 is right, and -1 is what
training without the correction tends to.

Sequences: the next item depends on the latest one alone. Two towers see the history as the mean of its items;
the sequence recommender sees their order.

What is done is not done again. Hardware: any. Duration: 2 to 3 minutes of CPU time.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence

import keras
import numpy as np
from absl import app, flags

from benchmarks.commands import markdown, run_python
from pipeline.base.errors import answers_bad_input
from pipeline.configs import retrieval
from pipeline.data.dataset import window
from pipeline.training.experiment.config import as_json, parse
from pipeline.training.experiment.defaults import resolve
from pipeline.training.experiment.restore import restore_model
from pipeline.training.run import run
from pipeline.training.run.request import Request

_SCRATCH = flags.DEFINE_string("scratch", None, "Directory for datasets and runs.", required=True)
_JSON = flags.DEFINE_string("json", None, "File to write the figures to.")

_USERS, _ITEMS, _FACTORS, _OFTEN = 300, 1000, 6, 30
_CHAIN, _SUCCESSORS, _LENGTH = 100, 20, 6
_ROWS = {"train": 60_000, "validation": 2_000, "test": 5_000}
_COMMON = {"train.epochs": 12.0, "optimizer.learning_rate": 5e-3, "evaluation.every_epochs": 3}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drawn:
    """Rows of splits, and the recall of whoever knows the probabilities, by its number of items."""

    rows: Mapping[str, Sequence[Mapping[str, object]]]
    optimum: Mapping[int, float]


def choices(rng: np.random.Generator) -> tuple[Drawn, np.ndarray]:
    """Choices, and the log-probabilities of items, [users, items]."""
    users, items = rng.normal(size=(_USERS, _FACTORS)), rng.normal(size=(_ITEMS, _FACTORS))
    logits = users @ items.T + 1.5 * rng.normal(size=_ITEMS)
    logs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    edges = np.exp(logs).cumsum(axis=1)
    rows, best = {}, {}
    for split, n in _ROWS.items():
        user = rng.integers(0, _USERS, n)
        item = _drawn(edges[user], rng)
        rows[split] = [{"user_id": f"u{u}", "item": f"i{i}"} for u, i in zip(user, item, strict=True)]
        order = np.argsort(-logs[user], axis=1)
        best = {k: float((order[:, :k] == item[:, None]).any(axis=1).mean()) for k in (1, 10)}
    return Drawn(rows=rows, optimum=best), logs


def sequences(rng: np.random.Generator) -> Drawn:
    """Walks of a chain in which each item has some successors, the likeliest of them half of the time."""
    successors = np.stack([rng.permutation(_CHAIN)[:_SUCCESSORS] for _ in range(_CHAIN)])
    chances = 0.5 ** np.minimum(np.arange(1, _SUCCESSORS + 1), 4)
    edges = (chances / chances.sum()).cumsum()
    rows, best = {}, {}
    for split, n in _ROWS.items():
        walk = [rng.integers(0, _CHAIN, n // 2)]
        for _ in range(_LENGTH):
            walk.append(successors[walk[-1], _drawn(np.tile(edges, (len(walk[0]), 1)), rng)])
        walks = np.stack(walk, axis=1)
        rows[split] = [
            {"last": [f"i{item}" for item in each[-2::-1]], "item": f"i{each[-1]}"} for each in walks
        ]
        places = (successors[walks[:, -2]] == walks[:, -1:]).argmax(axis=1)
        best = {k: float((places < k).mean()) for k in (1, 10)}
    return Drawn(rows=rows, optimum=best)


def _drawn(edges: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The place of a random number between the edges of each row, int64 [n]; edges: [n, places]."""
    return np.minimum((edges < rng.random((len(edges), 1))).sum(axis=1), edges.shape[1] - 1)


@answers_bad_input
def main(argv: Sequence[str]) -> None:
    del argv
    scratch, found = pathlib.Path(_SCRATCH.value).absolute(), {}
    drawn, logs = choices(np.random.default_rng(0))
    dataset = _dataset(drawn, scratch / "choices")
    found["choices, optimum"] = {f"recall@{k}": each for k, each in drawn.optimum.items()}
    for name, options in (
        ("batch", {"negatives": "batch"}),
        ("batch, uncorrected", {"negatives": "batch", "log_q": False}),
        ("all", {"negatives": "all"}),
    ):
        workdir = scratch / "runs" / f"choices {name}"
        metrics = _trained(dataset, workdir, {"size": 16, "hidden": (), **options})
        found[f"choices, {name}"] = {**metrics, "slope": slope(workdir, drawn, logs)}
        print(f"choices, {name}: {found[f'choices, {name}']}", flush=True)
    drawn = sequences(np.random.default_rng(1))
    dataset = _dataset(drawn, scratch / "sequences")
    found["sequences, optimum"] = {f"recall@{k}": each for k, each in drawn.optimum.items()}
    for name, options in (
        ("two_tower", {"name": "two_tower", "size": 32, "hidden": (128,)}),
        ("sequence_recommender", {"name": "sequence_recommender", "size": 32, "depth": 1, "dropout": 0.0}),
    ):
        metrics = _trained(dataset, scratch / "runs" / f"sequences {name}", options)
        found[f"sequences, {name}"] = metrics
        print(f"sequences, {name}: {metrics}", flush=True)
    print(markdown(found, ("recall@1", "recall@10", "slope")))
    if _JSON.value:
        pathlib.Path(_JSON.value).write_text(json.dumps(found, indent=2))


def slope(workdir: pathlib.Path, drawn: Drawn, logs: np.ndarray) -> float:
    """The slope of the scores' error over the log of an item's share: see above."""
    restored = restore_model(workdir)
    names = restored.schema.label.classes
    counts = dict.fromkeys(names, 0)
    for row in drawn.rows["train"]:
        counts[row["item"]] += 1
    number = np.array([counts[name] for name in names])
    [user] = restored.schema.inputs
    values = np.array([f"u{each}" for each in range(_USERS)], object)
    inputs = restored.preprocess({user.name: keras.ops.convert_to_tensor(values)})
    scores = restored.model(inputs).numpy().astype("float64")
    error = scores - logs[:, [int(name[1:]) for name in names]]
    often = number >= _OFTEN
    x, y = np.log(number[often]), error[:, often]
    x, y = x - x.mean(), y - y.mean(axis=1, keepdims=True)
    return float((y @ x).mean() / (x @ x))


def _trained(dataset: pathlib.Path, workdir: pathlib.Path, options: Mapping[str, object]) -> dict[str, float]:
    """Trains, or goes on; returns recalls on the test split."""
    keras.utils.clear_session(free_memory=False)  # layers are named as in a process of its own
    config = retrieval.get_config()
    opened = window.open_window([str(dataset)])
    if options.get("name", config.model.name) == config.model.name:
        config.model.update(options)
    else:
        config.model = dict(options)
    config.update_from_flattened_dict(_COMMON)
    request = Request(
        experiment=parse(resolve(as_json(config.to_dict()), opened).values),
        config_file="pipeline/configs/retrieval.py",
        dataset=opened,
        workdir=workdir,
        strategy="one_device",
    )
    found = run.train(request)
    return {f"recall@{k}": found[f"recall_at_{k}"] for k in (1, 10)}


def _dataset(drawn: Drawn, folder: pathlib.Path) -> pathlib.Path:
    """Writes the rows as a user has them, and converts them; returns the dataset."""
    output, schema = folder / "1.0.0", folder / "schema.json"
    if (output / "manifest.json").exists():
        return output
    folder.mkdir(parents=True, exist_ok=True)
    for split, rows in drawn.rows.items():
        (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    inputs = [f"--input={split}={folder}/{split}.jsonl" for split in drawn.rows]
    label = ("--label=item", "--task=retrieval")
    run_python("-m", "beam_jobs.infer_schema", *inputs, *label, f"--output={schema}", "--overwrite")
    run_python(
        "-m", "beam_jobs.convert", *inputs, f"--schema={schema}", f"--output={output}", "--layout=blocks"
    )
    return output


if __name__ == "__main__":
    app.run(main)
