"""Models with their batches: wide & deep on blocks of a table like Adult, a small ResNet on pictures."""

import csv
import dataclasses
import pathlib
import subprocess
import sys
from collections.abc import Callable, Mapping

import keras
import numpy as np
import tensorflow as tf
from ml_collections import ConfigDict

from models.registry import MODELS
from pipeline.configs import adult_wide_deep, mnist_resnet
from pipeline.data.dataset import manifest
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.preprocessing.preprocess import ModelInputs
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Categorical, Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.training.engine.precision import Precision
from pipeline.training.experiment import optimizer
from pipeline.training.experiment.config import parse
from pipeline.training.experiment.model import build_model
from pipeline.training.experiment.optimizer import WarmedUp
from pipeline.training.run import parts
from pipeline.training.run.request import Request
from pipeline.training.run.setup import decide
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
_STEPS = 100_000  # of the learning rate's schedule: more than are run


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workload:
    """`model` makes a new one with its optimizer; `batches` are endless, of (inputs, labels [batch])."""

    name: str
    model: Callable[[], keras.Model]
    optimizer: Callable[[], keras.optimizers.Optimizer]  # Keras's own, of the same settings, for `fit`
    batches: tf.data.Dataset
    task: Task
    loss: keras.losses.Loss  # the task's, for `fit`
    accuracy: keras.metrics.Metric  # the task's, for `fit`
    global_batch: int
    torch: Mapping[str, object] = dataclasses.field(default_factory=dict)  # arguments of peers/torch_loop.py

    def constant(self) -> "Workload":
        """The same workload on one repeated batch, to measure a step without input."""
        batch = next(iter(self.batches))
        again = tf.data.Dataset.from_tensors(batch).repeat()
        return dataclasses.replace(self, name=f"{self.name}, constant batch", batches=again)


def wide_deep(folder: pathlib.Path) -> Workload:
    """On blocks in `folder`, with the config of Adult, in float32."""
    config = adult_wide_deep.get_config()
    config.train.steps = _STEPS
    request = Request(
        experiment=parse(config.to_dict()),
        dataset=_table(folder / "adult_like"),
        workdir=folder / "run",
        strategy="one_device",
        precision="float32",
    )
    setup = decide(request)
    run = parts.build(setup)
    distributed = tf.distribute.InputContext(
        num_input_pipelines=1, input_pipeline_id=0, num_replicas_in_sync=1
    )
    cardinalities = run.preprocess.inputs.cardinalities
    return Workload(
        name="wide_deep",
        model=lambda: _wide_deep(config, setup.dataset, run.preprocess.inputs),
        optimizer=lambda: _of_keras(config),
        batches=parts.host_batches(run, 0, distributed),
        task=TASKS["binary"],
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        accuracy=keras.metrics.BinaryAccuracy(threshold=0.0),
        global_batch=config.global_batch,
        torch=_of_torch(
            config,
            offsets=[sum(cardinalities[:column]) for column in range(len(cardinalities))],
            dropout=config.model.dropout,
        ),
    )


def _wide_deep(config: ConfigDict, dataset: Dataset, inputs: ModelInputs) -> keras.Model:
    model = build_model(
        parse(config.to_dict()).model, schema=dataset.schema, inputs=inputs, precision=_FLOAT32
    )
    return _with_optimizer(model, config)


def resnet(folder: pathlib.Path) -> Workload:
    """On 4,096 random pictures of 28 x 28, with the config of MNIST, in float32."""
    del folder
    config = mnist_resnet.get_config()
    draw = np.random.default_rng(0)
    pictures = {"image": draw.integers(0, 256, (4_096, 28, 28, 1)).astype(np.uint8)}
    labels = draw.integers(0, 10, 4_096).astype(np.int32)
    examples = tf.data.Dataset.from_tensor_slices((pictures, labels)).cache().repeat()
    batches = examples.batch(config.global_batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    return Workload(
        name="resnet",
        model=lambda: _resnet(config),
        optimizer=lambda: _of_keras(config),
        batches=batches,
        task=TASKS["multiclass"],
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        accuracy=keras.metrics.SparseCategoricalAccuracy(),
        global_batch=config.global_batch,
        torch=_of_torch(config, widths=config.model.widths, stem_stride=config.model.stem_stride),
    )


def _resnet(config: ConfigDict) -> keras.Model:
    options = {key: value for key, value in config.model.items() if key != "name"}
    model = MODELS["resnet"](image_shape=(28, 28, 1), outputs=10, image_rescaling=(1 / 255, 0.0), **options)
    return _with_optimizer(model, config)


def _with_optimizer(model: keras.Model, config: ConfigDict) -> keras.Model:
    model.optimizer = optimizer.build(
        parse(config.to_dict()).optimizer, model.trainable_variables, total_steps=_STEPS, precision=_FLOAT32
    )
    return model


def _of_keras(config: ConfigDict) -> keras.optimizers.Optimizer:
    asked = config.optimizer
    schedule = WarmedUp(asked.schedule, peak=asked.learning_rate, warmup=asked.warmup_steps, total=_STEPS)
    made = keras.optimizers.AdamW(
        schedule, weight_decay=asked.weight_decay, global_clipnorm=asked.clip_norm or None
    )
    made.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return made


def _of_torch(config: ConfigDict, **arguments: object) -> Mapping[str, object]:
    asked = config.optimizer
    settings = {key: asked[key] for key in ("learning_rate", "weight_decay", "clip_norm")}
    return {"model": config.model.name, "arguments": arguments, "total_steps": _STEPS, **settings}


def _table(directory: pathlib.Path) -> Dataset:
    """Converts made-up rows: 6 numbers and 7 categories, layout `blocks`."""
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
