"""Models with their batches: two of tables, on blocks of one like Adult; two ResNets on pictures; and a
transformer on packed tokens.
"""

import csv
import dataclasses
import functools
import pathlib
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf
from ml_collections import ConfigDict

from benchmarks.training.losses import AccuracyOfMembers, AccuracyOfNextToken, OfMembers, OfNextToken
from models.registry import MODELS
from pipeline.configs import adult_wide_deep, base, language_model, mnist_resnet
from pipeline.configs import tabular as tabular_config
from pipeline.data.dataset import manifest
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.reading.parsing import predicted
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Categorical, Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.training.engine.precision import Precision
from pipeline.training.experiment import defaults, optimizer
from pipeline.training.experiment.config import Experiment, parse
from pipeline.training.experiment.model import build_model
from pipeline.training.experiment.optimizer import WarmedUp
from pipeline.training.run import parts
from pipeline.training.run.request import Request
from pipeline.training.run.setup import decide
from pipeline.training.tasks.objective import Objective
from pipeline.training.tasks.registry import TASKS
from pipeline.training.tasks.task import Task

_ROWS = 65_536
_SIZES = {
    "workclass": 9,
    "education": 16,
    "marital": 7,
    "occupation": 15,
    "relation": 6,
    "race": 5,
    "country": 42,
}
_NUMBERS = ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours")
_FLOAT32 = Precision(policy="float32", reason="of the benchmark")
_PICTURES = {"resnet": 4_096, "resnet18": 512}
_TOKENS, _LENGTH = 257, 128  # bytes and the end of a document; tokens of a row
_STEPS = 100_000  # of the learning rate's schedule: more than are run


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workload:
    """A model, and how it learns.

    Attributes:
      model: makes a new one with its optimizer.
      optimizer: makes Keras's own, of the same settings, for `fit`.
      batches: endless, of (inputs, labels [batch, ...]).
      loss, accuracy: the task's, for `fit`; `accuracy` makes a new one.
      ema: decay of the averages of the weights that all keep; 0: none.
      weight: how many steps of `wide_deep` a step stands for: a measurement has so many times fewer.
      torch: arguments of peers/torch_loop.py.
    """

    name: str
    model: Callable[[], keras.Model]
    optimizer: Callable[[], keras.optimizers.Optimizer]
    batches: tf.data.Dataset
    task: Task | Objective
    loss: keras.losses.Loss
    accuracy: Callable[[], keras.metrics.Metric]
    global_batch: int
    ema: float = 0.0
    weight: int = 1
    torch: Mapping[str, object] = dataclasses.field(default_factory=dict)

    def constant(self) -> "Workload":
        """The same workload on one repeated batch, to measure a step without input."""
        batch = next(iter(self.batches))
        again = tf.data.Dataset.from_tensors(batch).repeat()
        return dataclasses.replace(self, name=f"{self.name}, constant batch", batches=again)


def wide_deep(folder: pathlib.Path) -> Workload:
    """On blocks in `folder`, with the config of Adult, in float32."""
    config = adult_wide_deep.get_config()
    config.train.steps = _STEPS
    run = _run(parse(config.to_dict()), _table(folder), folder)
    return Workload(
        name="wide_deep",
        model=lambda: _of_run(run),
        optimizer=lambda: _of_keras(config),
        batches=_batches_of(run),
        task=TASKS["binary"],
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        accuracy=lambda: keras.metrics.BinaryAccuracy(threshold=0.0),
        global_batch=config.global_batch,
        torch=_of_torch(
            config, offsets=_offsets(run.preprocess.inputs.cardinalities), dropout=config.model.dropout
        ),
    )


def tabular(folder: pathlib.Path) -> Workload:
    """On the blocks of `wide_deep`, with the config of any table, as the rules make it for many rows."""
    config, dataset = tabular_config.get_config(), _table(folder)
    config.train.steps = _STEPS
    run = _run(parse(defaults.resolve(config.to_dict(), dataset).values), dataset, folder)
    inputs = run.preprocess.inputs
    taken = [at for at in range(len(inputs.cardinalities)) if at not in inputs.bin_columns]
    return Workload(
        name="tabular",
        model=lambda: _of_run(run),
        optimizer=lambda: _of_keras(config),
        batches=_batches_of(run),
        task=Objective(task=TASKS["binary"]),
        loss=OfMembers(),
        accuracy=AccuracyOfMembers,
        global_batch=run.setup.experiment.data.global_batch,
        ema=config.optimizer.ema,
        weight=2,
        torch=_of_torch(
            config,
            boundaries=run.model.get_layer("numbers").boundaries,
            taken=taken,
            offsets=_offsets([inputs.cardinalities[at] for at in taken]),
            dropout=config.model.dropout,
        ),
    )


def _run(experiment: Experiment, dataset: Dataset, folder: pathlib.Path) -> parts.Run:
    request = Request(
        experiment=experiment,
        dataset=dataset,
        workdir=folder / f"run_{experiment.model.name}",
        strategy="one_device",
        precision="float32",
    )
    return parts.build(decide(request))


def _of_run(run: parts.Run) -> keras.Model:
    """A new model, as the run has one."""
    experiment, inputs = run.setup.experiment, run.preprocess.inputs
    model = build_model(experiment.model, schema=run.setup.dataset.schema, inputs=inputs, precision=_FLOAT32)
    model.optimizer = optimizer.build(
        experiment.optimizer, model.trainable_variables, total_steps=_STEPS, precision=_FLOAT32
    )
    return model


def _batches_of(run: parts.Run) -> tf.data.Dataset:
    alone = tf.distribute.InputContext(num_input_pipelines=1, input_pipeline_id=0, num_replicas_in_sync=1)
    return parts.host_batches(run, 0, alone)


def _offsets(cardinalities: Sequence[int]) -> list[int]:
    """The first row of each column in their table."""
    return [sum(cardinalities[:column]) for column in range(len(cardinalities))]


def resnet(folder: pathlib.Path) -> Workload:
    """On 4,096 random pictures of 28 x 28, with the config of MNIST, in float32."""
    del folder
    config = mnist_resnet.get_config()
    arguments = {"widths": config.model.widths, "stem_stride": config.model.stem_stride}
    return dataclasses.replace(_pictures(config, (28, 28, 1), classes=10, **arguments), weight=5)


def resnet18(folder: pathlib.Path) -> Workload:
    """On 512 random pictures of 32 x 32, with the network for ImageNet, in float32."""
    del folder
    config = base.get_config()
    config.model = {"name": "resnet18", "stem_stride": 4}
    config.global_batch = 32
    return dataclasses.replace(_pictures(config, (32, 32, 3), classes=1_000), weight=40)


def _pictures(
    config: ConfigDict, shape: tuple[int, int, int], *, classes: int, **arguments: object
) -> Workload:
    """A network for pictures; `arguments` are those of torch's."""
    draw, count = np.random.default_rng(0), _PICTURES[config.model.name]
    pictures = {"image": draw.integers(0, 256, (count, *shape)).astype(np.uint8)}
    labels = draw.integers(0, classes, count).astype(np.int32)
    options = {key: value for key, value in config.model.items() if key != "name"}
    make = functools.partial(
        MODELS[config.model.name],
        image_shape=shape,
        outputs=classes,
        image_rescaling=(1 / 255, 0.0),
        **options,
    )
    return Workload(
        name=config.model.name,
        model=lambda: _with_optimizer(make(), config),
        optimizer=lambda: _of_keras(config),
        batches=_in_memory(pictures, labels, config.global_batch),
        task=TASKS["multiclass"],
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        accuracy=keras.metrics.SparseCategoricalAccuracy,
        global_batch=config.global_batch,
        torch=_of_torch(config, **arguments),
    )


def transformer(folder: pathlib.Path) -> Workload:
    """On 1,024 rows of 128 made-up bytes, two documents or more in each, with the config of language models;
    but AdamW for all variables, in float32.
    """
    del folder
    config = language_model.get_config()
    # torch has no Muon of the same steps.
    config.optimizer.name, config.optimizer.learning_rate = "adamw", 1e-3
    config.optimizer.weight_decay = 1e-2
    tokens, segments = _packed(np.random.default_rng(0))
    options = {key: value for key, value in config.model.items() if key != "name"}
    make = functools.partial(
        MODELS["transformer"],
        sequences={"tokens": (_LENGTH, _TOKENS + 1), "segments": (_LENGTH, int(segments.max()) + 2)},
        outputs=_TOKENS,
        **options,
    )
    labels = predicted(tf.constant(tokens), tf.constant(segments)).numpy()
    inputs = {"tokens": tokens + 1, "segments": segments + 1}  # ids of models begin with 1
    return Workload(
        name="transformer",
        model=lambda: _with_optimizer(make(), config),
        optimizer=lambda: _of_keras(config),
        batches=_in_memory(inputs, labels, config.global_batch),
        task=TASKS["next_token"],
        loss=OfNextToken(),
        accuracy=AccuracyOfNextToken,
        global_batch=config.global_batch,
        weight=5,
        torch=_of_torch(
            config,
            depth=config.model.depth,
            heads=config.model.heads,
            key_value_heads=config.model.key_value_heads,
        ),
    )


def _packed(draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Tokens, and the numbers of their documents in the row, from 1: int32 [rows, length] both."""
    tokens = (draw.zipf(1.5, (1_024, _LENGTH)) % _TOKENS).astype(np.int32)
    begins = draw.random(tokens.shape) < 1 / 50
    begins[:, _LENGTH // 2] = True
    begins[:, 0] = True
    return tokens, np.cumsum(begins, axis=1).astype(np.int32)


def _in_memory(inputs: Mapping[str, np.ndarray], labels: np.ndarray, batch: int) -> tf.data.Dataset:
    examples = tf.data.Dataset.from_tensor_slices((dict(inputs), labels)).cache().repeat()
    return examples.batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def _with_optimizer(model: keras.Model, config: ConfigDict) -> keras.Model:
    model.optimizer = optimizer.build(
        parse(config.to_dict()).optimizer, model.trainable_variables, total_steps=_STEPS, precision=_FLOAT32
    )
    return model


def _of_keras(config: ConfigDict) -> keras.optimizers.Optimizer:
    asked = config.optimizer
    schedule = WarmedUp(asked.schedule, peak=asked.learning_rate, warmup=asked.warmup_steps, total=_STEPS)
    made = keras.optimizers.AdamW(
        schedule,
        weight_decay=asked.weight_decay,
        global_clipnorm=asked.clip_norm or None,
        use_ema=bool(asked.ema),
        ema_momentum=asked.ema,
    )
    made.exclude_from_weight_decay(var_names=["bias", "gamma", "beta", "scale"])
    return made


def _of_torch(config: ConfigDict, **arguments: object) -> Mapping[str, object]:
    asked = config.optimizer
    settings = {key: asked[key] for key in ("learning_rate", "weight_decay", "clip_norm", "ema")}
    return {"model": config.model.name, "arguments": arguments, "total_steps": _STEPS, **settings}


def _table(folder: pathlib.Path) -> Dataset:
    """Made-up rows, 6 numbers and 7 categories, converted to `blocks` unless `folder` has them."""
    directory = folder / "adult_like"
    if directory.exists():
        return manifest.open_dataset(directory)
    draw = np.random.default_rng(0)
    columns = {name: draw.normal(size=_ROWS).round(3).tolist() for name in _NUMBERS}
    columns |= {
        name: [f"{name} {value}" for value in (draw.zipf(1.5, _ROWS) % size).tolist()]
        for name, size in _SIZES.items()
    }
    columns["income"] = draw.choice(["no", "yes"], _ROWS).tolist()
    raw, schema = directory.with_suffix(".csv"), directory.with_suffix(".json")
    with raw.open("w", newline="") as file:
        csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])
    schema.write_text(schema_lib.dumps(_schema()))
    command = (
        *(sys.executable, "-m", "beam_jobs.convert", f"--input={raw}", f"--schema={schema}"),
        *(f"--output={directory}", "--layout=blocks"),
    )
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return manifest.open_dataset(directory)


def _schema() -> Schema:
    categories = (
        Categorical(name=name, vocabulary=tuple(f"{name} {value}" for value in range(size)))
        for name, size in _SIZES.items()
    )
    numbers = (Numeric(name=name) for name in _NUMBERS)
    return Schema(
        name="adult_like", features=(*numbers, *categories, Label(name="income", classes=("no", "yes")))
    )
