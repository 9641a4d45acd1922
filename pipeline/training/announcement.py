"""What the first lines of a run say: what was decided about it, and why."""

from collections.abc import Iterator

import tensorflow as tf

from pipeline.data.dataset.manifest import Dataset
from pipeline.data.integrity.damage import listed
from pipeline.data.integrity.damage_budget import Damage
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.precision import Precision
from pipeline.training.experiment import evaluation_splits, optimizer, training_data
from pipeline.training.experiment import objective as objective_lib
from pipeline.training.request import Request
from pipeline.training.state.start import Start
from pipeline.training.tasks.objective import Objective


def lines(
    request: Request,
    strategy: tf.distribute.Strategy,
    precision: Precision,
    *,
    objective: Objective,
    damage: Damage,
    total_steps: int,
    rows: int,
    ignored: str,
    is_validated: bool,
    start: Start | None,
    xla: str,
) -> tuple[str, ...]:
    """Lines of a word and what is said under it.

    Args:
      rows: of an epoch.
      ignored: what of TF_CONFIG is; empty: nothing.
      xla: whether it is on, and why.
    """
    said = _decided(request, strategy, precision)
    label = request.dataset.schema.label
    told = objective_lib.announced(request.config, objective, label)
    return (
        *said,
        *([f"begins     with {start}; preprocessing is that run's, too"] if start else []),
        *told,
        *([f"ignored    {ignored}"] if ignored else []),
        *(f"warning    {each}" for each in _warnings(request, precision, total_steps, rows) if each),
        *([f"left out   {listed(damage)}"] if damage else []),
        *([] if is_validated else ["validation none: the dataset has no such split"]),
        f"XLA        {xla}",
        *(["bits       the same from the same command: asked for"] if request.deterministic else []),
    )


def _decided(request: Request, strategy: tf.distribute.Strategy, precision: Precision) -> Iterator[str]:
    config, dataset, replicas = request.config, request.dataset, strategy.num_replicas_in_sync
    yield f"dataset    {dataset}: {_sizes(dataset)}"
    for directory, split, weight in config.mixture:
        yield f"mixed with {directory}: {split}, weight {weight:g} to {config.train.weight:g}"
    yield (
        f"strategy   {strategy_lib.name_of(strategy)}, replicas: {replicas}, "
        f"global batch {config.global_batch:,}, of which a replica has {config.global_batch // replicas:,}"
    )
    if request.learning_rate:
        yield f"rate       {request.learning_rate}"
    yield f"precision  {precision.policy}: {precision.reason}"


def _warnings(request: Request, precision: Precision, total_steps: int, rows: int) -> tuple[str, ...]:
    return (
        precision.warning,
        optimizer.warmup_warning(request.config.optimizer, total_steps),
        training_data.repetition(request.config.global_batch, rows),
    )


def _sizes(dataset: Dataset) -> str:
    return ", ".join(f"{split} {rows:,}" for split, rows in evaluation_splits.filled_splits(dataset).items())
