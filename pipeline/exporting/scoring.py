"""Computes metrics of an exported model on a split of a dataset, through the signature that serves it."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.base.progress import Bar
from pipeline.base.tracing import no_autograph
from pipeline.data.dataset import records
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.records import EVALUATED, RAW, SERVING_DEFAULT
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.dataset.window import spans_of
from pipeline.data.input.training import Targets
from pipeline.data.integrity import damage as damage_lib
from pipeline.data.integrity.damage import naming_damage
from pipeline.data.preprocessing.preprocess import merged_groups
from pipeline.data.reading import parsing, windows
from pipeline.data.reading.fetch import READY
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import LABEL_TASKS, Label
from pipeline.data.schema.schema import Schema
from pipeline.exporting.raw_inputs import raw_inputs
from pipeline.exporting.signatures import labels_name
from pipeline.training.experiment import example_weights
from pipeline.training.experiment import metrics as metrics_lib
from pipeline.training.run.weights import require_weights
from pipeline.training.tasks.metrics import Accumulator
from pipeline.training.tasks.registry import EvaluationMetrics

Answer = TypeVar("Answer")


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoredRows:
    """Rows as a dataset with `schema` stores them: `stored` is string [n] or uint16 [n, words]."""

    stored: tf.Tensor
    schema: Schema

    def __len__(self) -> int:
        return len(self.stored)

    @property
    def are_records(self) -> bool:
        """Whether each row is a serialized example."""
        return self.stored.dtype == tf.string

    def features(self, names: Collection[str]) -> dict[str, tf.Tensor]:
        """Returns some features of the rows, [n, *feature.shape] each."""
        if self.are_records:  # parsing takes time for each feature
            return parsing.stored_features(self.stored, self.schema, names)
        return {name: self.columns[name] for name in names}

    @functools.cached_property
    def columns(self) -> dict[str, tf.Tensor]:
        """All features of the rows, [n, *feature.shape] each."""
        return parsing.stored_features(self.stored, self.schema)

    def inputs_of(self, reader: Schema) -> dict[str, tf.Tensor]:
        """Returns the inputs that a model's schema declares, with the fill value for those that the rows
        lack.
        """
        stored = {feature.name for feature in self.schema.features}
        found = self.features([feature.name for feature in reader.inputs if feature.name in stored])
        absent = {f.name: self._filled(f) for f in reader.inputs if f.name not in stored}
        return found | absent

    def _filled(self, feature: Feature) -> tf.Tensor:
        value = tf.constant(feature.fill, parsing.DTYPES[feature.dtype])
        group = [self.schema.group.length] if self.schema.group else []
        return tf.fill([len(self), *group, *feature.shape], value)

    def labels(self, label: Label) -> np.ndarray:
        """Returns int32 classes or float32 values [n, *label.shape], as the metrics take them."""
        return parsing.label_of(self.features(label.parts), label).numpy()

    def weights(self, targets: Targets) -> np.ndarray | None:
        """Returns the weights of the examples, float32 [n]; None where there are none."""
        if targets.weights is None:
            return None
        features = self.features([targets.weights.name])
        return targets.weights_of(targets(features, tf.zeros([len(self)]))).numpy()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportedModel:
    """A loaded export. `digest` is the digest of `export.json`; `schema` is what the model reads.

    Records go through `serving_default` as they are, rows of blocks through `raw`, as they do in serving. So
    do the rows of groups, which the model scores by themselves.
    """

    directory: pathlib.Path
    digest: str
    schema: Schema
    module: tf.Module

    @property
    def label(self) -> Label:
        return self.schema.label

    def evaluated(self, rows: StoredRows) -> np.ndarray:
        """Returns what the metrics take of the rows, [n, …], as the task's `evaluated` gives it."""
        if EVALUATED not in self.module.signatures:
            return self.predictions(rows)
        given = raw_inputs(rows.inputs_of(self.schema), self.schema)
        labels = {labels_name(self.schema): tf.constant(rows.labels(self.label), tf.int32)}
        return self.module.signatures[EVALUATED](**given, **labels)[EVALUATED].numpy()

    def predictions(self, rows: StoredRows) -> np.ndarray:
        """Returns predictions [n, …], as the task's `predictions` gives them; for groups [n, length]."""
        if rows.schema.group:
            return self._scores_of_groups(rows)
        if rows.are_records:
            outputs = self.module.signatures[SERVING_DEFAULT](examples=rows.stored)
        else:
            outputs = self.module.signatures[RAW](**raw_inputs(rows.inputs_of(self.schema), self.schema))
        return outputs[LABEL_TASKS[self.label.task].output].numpy()

    def _scores_of_groups(self, rows: StoredRows) -> np.ndarray:
        features = merged_groups(rows.inputs_of(self.schema))
        outputs = self.module.signatures[RAW](**raw_inputs(features, self.schema))
        return outputs[LABEL_TASKS[self.label.task].output].numpy().reshape(len(rows), -1)


def open_model(directory: pathlib.Path, dataset: Dataset) -> ExportedModel:
    """Loads an export, to predict rows of `dataset`.

    Raises:
      InputError: the export is not whole, or the dataset lacks what the model's schema needs.
    """
    digest = records.open_export(directory)["digest"]
    schema = schema_lib.load(directory / schema_lib.FILE_NAME)
    _require_readable(schema, dataset)
    module = tf.saved_model.load(str(directory))
    return ExportedModel(directory=directory, digest=digest, schema=schema, module=module)


def answers(
    selection: Selection, ask: Callable[[StoredRows], Answer], *, batch: int, title: str
) -> Iterator[Answer]:
    """Yields what `ask` returns for every selected row once, in stored order, `batch` rows at a time.

    Args:
      title: title of the progress bar.

    Raises:
      InputError: a record is damaged, or an image in one is refused; the record is named.
    """
    schema = selection.dataset.schema
    windows_of_rows = windows.stored_rows(selection).map(no_autograph(lambda _, rows: rows))
    progress = Bar(total=selection.rows, unit=" examples", desc=title)
    with naming_damage(selection), progress:
        for rows in windows_of_rows.rebatch(batch).prefetch(READY):
            yield ask(StoredRows(stored=rows, schema=schema))
            progress.update(len(rows))


def _require_readable(schema: Schema, dataset: Dataset) -> None:
    """Raises InputError where records of `dataset` do not hold what `schema` reads."""
    problems = schema_lib.incompatibilities(schema, dataset.schema)
    if problems:
        raise InputError(
            f"dataset {dataset}",
            received="; ".join(problems),
            expected="records that the model's schema can read",
            action="Use a dataset converted with the model's schema, or train a model on this one.",
        )


WEIGHTS_FLAG, METRICS_FLAG = "--example_weights", "--metrics"


def score(
    model_directory: pathlib.Path,
    dataset: Dataset,
    *,
    split: str,
    batch: int,
    max_corrupt_records: int = 0,
    weighted_by: str = "",
    metrics: Sequence[str] = (),
) -> dict:
    """Predicts every record of `split` once with the export, and returns the metrics as JSON has them.

    Args:
      weighted_by: the numeric feature of the dataset that weights examples; empty: none.
      metrics: metrics besides the task's, named as in `config.evaluation.metrics`.

    Raises:
      InputError: the export is not whole, the dataset lacks what the model's schema needs, a weight is
        invalid, or there is no such metric.
    """
    model = open_model(model_directory, dataset)
    more = metrics_lib.build(metrics, model.label, flag=METRICS_FLAG)
    targets = Targets(weights=example_weights.named(weighted_by, dataset.schema, flag=WEIGHTS_FLAG))
    selections, damage = damage_lib.sound_selection(
        {split: select(dataset, split)}, budget=max_corrupt_records
    )
    require_weights(selections.values(), targets.weights, flag=WEIGHTS_FLAG)
    return {
        **_metrics(selections[split], model, batch=batch, targets=targets, more=more),
        "split": split,
        **({"weighted_by": weighted_by} if weighted_by else {}),
        "model": str(model_directory),
        "model_digest": model.digest,
        "dataset": str(dataset.directory),
        "dataset_digest": dataset.manifest.digest,
        **({"spans": spans_of(dataset)} if dataset.members else {}),
        "damaged": damage_lib.damage_to_json(damage),
    }


def _metrics(
    selection: Selection,
    model: ExportedModel,
    *,
    batch: int,
    targets: Targets,
    more: Mapping[str, Callable[[], Accumulator]],
) -> dict:

    def ask(rows: StoredRows) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        return rows.labels(model.label), model.evaluated(rows), rows.weights(targets)

    metrics = EvaluationMetrics(model.label, more)
    for labels, predictions, weights in answers(
        selection, ask, batch=batch, title=f"evaluate {selection.expression}"
    ):
        metrics.update(labels, predictions, weights=weights)
    return metrics.result()
