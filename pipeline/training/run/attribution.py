"""Names the records of a batch that are at fault when a step's loss is infinite or not a number."""

import functools
from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.input.training import Mixed, partner_of
from pipeline.data.origins.reader import RawRow
from pipeline.training.experiment import first_weights
from pipeline.training.experiment.model import build_model
from pipeline.training.loop.bad_steps import Attribution
from pipeline.training.replay.evaluator import ExampleEvaluator, example_evaluator, worst_first
from pipeline.training.replay.stream import Batch, Record, TrainingStream, origins_of, place, raw_row_note
from pipeline.training.run.parts import Run

_MOST = 3  # records that are named


def attribution_of(run: Run) -> Callable[[int, bool], Attribution]:
    """A function of (a step, whether the model's weights are spoiled) that computes its batch again.

    Each example is evaluated by itself: without dropout, and with the moving statistics of batch
    normalizations. If the weights are spoiled, the initial weights are used.
    """
    setup, replicas = run.setup, run.setup.strategy.num_replicas_in_sync
    stream = TrainingStream(args=setup.experiment.data, data=setup.training_data, preprocess=run.preprocess)

    @functools.cache  # otherwise each bad step would trace the model again
    def evaluator(is_spoiled: bool) -> ExampleEvaluator:
        return example_evaluator(_initial(run) if is_spoiled else run.model, setup.objective)

    def attribution(step: int, is_spoiled: bool) -> Attribution:
        batch = stream.batch(step)
        targets = batch[1]
        weights = stream.targets.weights_of(targets)
        return described(
            _losses(evaluator(is_spoiled), batch, parts=replicas),
            stream.records(step),
            replicas=replicas,
            origins=functools.partial(origins_of, stream.data),
            weights=None if weights is None else weights.numpy(),
            shares=targets.shares.numpy() if isinstance(targets, Mixed) else None,
        )

    return attribution


def described(
    losses: np.ndarray,
    records: Sequence[Record],
    *,
    replicas: int,
    origins: Callable[[Sequence[Record]], list[RawRow | None]],
    weights: np.ndarray | None = None,
    shares: np.ndarray | None = None,
) -> Attribution:
    """Formats the attribution. It names both examples of a mixed pair: either may be at fault.

    Args:
      losses: float32 [global batch], in the order of the batch.
      records: records of the same examples.
      origins: the raw rows of some of them, where the dataset knows them.
      weights: weights of the examples, float32 [global batch]; None if they have none.
      shares: share of each example in its mixture, float32 [global batch]; None if they are not mixed.
    """
    each, bad = len(losses) // replicas, int((~np.isfinite(losses)).sum())
    worst = worst_first(losses)[: min(bad, _MOST) or 1].tolist()
    named = [
        f"{place(records[index])} (replica {index // each}{raw_row_note(raw)}) "
        f"has a loss of {losses[index]:g}{_at_weight(weights, index)}"
        for index, raw in zip(worst, origins([records[index] for index in worst]), strict=True)
    ]
    if shares is not None:
        partners = [partner_of(index) for index in worst]
        raw_rows = origins([records[index] for index in partners])
        named = [
            f"{name}, mixed with {1 - shares[index]:.1%} of {place(records[index])}{_in_brackets(raw)}"
            f"{_at_weight(weights, index)}"
            for name, index, raw in zip(named, partners, raw_rows, strict=True)
        ]
    if bad == len(losses) > 1:
        why = f"all {bad:,} records have no finite loss: the weights are the cause, or a label is extreme"
        return Attribution(text=f"{why}; {named[0]}", is_certain=False)
    if bad:
        more = f" and {bad - _MOST} more" if bad > _MOST else ""
        return Attribution(text="; ".join(named) + more, is_certain=True)
    largest = f"{named[0]}, the largest"
    return Attribution(
        text=f"the weights are the cause, as no record is at fault by itself; {largest}", is_certain=False
    )


def _in_brackets(raw: RawRow | None) -> str:
    return "" if raw is None else f" ({raw_row_note(raw).removeprefix('; ')})"


def _at_weight(weights: np.ndarray | None, index: int) -> str:
    return "" if weights is None else f" at a weight of {weights[index]:g}"


def _losses(evaluator: ExampleEvaluator, batch: Batch, *, parts: int) -> np.ndarray:
    """Returns each example's loss, float32 [global batch]; computed in `parts`, as replicas hold them."""
    cut = zip(*(tf.split(tensor, parts) for tensor in tf.nest.flatten(batch)), strict=True)
    return np.concatenate([evaluator(*tf.nest.pack_sequence_as(batch, part))[0] for part in cut])


def _initial(run: Run) -> keras.Model:
    setup = run.setup
    inputs, schema = run.preprocess.inputs, setup.dataset.schema
    model = build_model(
        setup.experiment.model, schema=schema, inputs=inputs, precision=setup.precision, scale=run.learned
    )
    if weights := first_weights.kept(setup.workdir):
        model.set_weights(weights)
    return model
