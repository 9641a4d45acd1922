"""Evaluates a step with the model of the run, and the weights of the checkpoint nearest to the step."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.input.training import TargetsOfBatch
from pipeline.training.experiment import first_weights, restore
from pipeline.training.state import checkpoints, run_record
from pipeline.training.state.checkpoints import Entry
from pipeline.training.state.workdir import Workdir
from pipeline.training.tasks.objective import Objective

# --- Chooses weights of a run for the examples of a step.


# `Entry.damage`, or a function that keeps its answers, because it reads whole checkpoints.
DamageOf = Callable[[Entry], str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Weights:
    """The weights after `step` steps. 0 means the initial weights, which the seed determines."""

    step: int
    damaged: tuple[str, ...] = ()  # checkpoints that would have been chosen, and what is wrong with each
    are_averaged_too: bool = False  # whether the run also keeps averages, which are not used here

    def seen_from(self, step: int) -> str:
        """Names the weights that evaluate the examples of `step`."""
        if not self.step:
            return f"the initial weights, before the first step{self._why_initial(step)}"
        averages = "; as they are trained, not their averages" if self.are_averaged_too else ""
        return f"the weights of the checkpoint of step {self.step:,}, {self._distance(step)}{averages}"

    def _why_initial(self, step: int) -> str:
        if self.damaged:
            return ", as every checkpoint of the run is damaged"
        return ", as the run keeps no checkpoint" if step else ""

    def _distance(self, step: int) -> str:
        if step == self.step:
            return "which this step was taken from"
        if step > self.step:
            return f"{_steps(step - self.step)} before"
        return f"{_steps(self.step - step)} after: none before it is kept"


def nearest_checkpoint(root: pathlib.Path, step: int, *, damage_of: DamageOf) -> Weights:
    """The newest sound checkpoint up to `step`, else the oldest after it, else the initial weights.

    The initial weights are the last choice: their predictions are no better than chance.
    """
    entries = checkpoints.newest_first(root)
    before = [entry for entry in entries if entry.step <= step]
    after = [entry for entry in reversed(entries) if entry.step > step]
    damaged: list[str] = []
    for entry in (*before, *after):
        reason = damage_of(entry)
        if not reason:
            return Weights(step=entry.step, damaged=tuple(damaged))
        # Otherwise a run that goes on has deleted it in the meantime.
        if entry in checkpoints.newest_first(root):
            damaged.append(reason)
    return Weights(step=0, damaged=tuple(damaged))


def chosen_checkpoint(root: pathlib.Path, step: int, *, damage_of: DamageOf) -> Weights:
    """The checkpoint after exactly `step` steps; 0: the initial weights. Raises InputError if there is
    none.
    """
    found = [entry for entry in checkpoints.newest_first(root) if entry.step == step]
    reasons = [damage_of(entry) for entry in found]
    if not step or "" in reasons:
        return Weights(step=step)
    sound = [entry.step for entry in reversed(checkpoints.newest_first(root)) if not damage_of(entry)]
    steps = ", ".join(map(str, sound))
    raise InputError(
        f"--checkpoint={step}",
        received=f"a damaged checkpoint ({'; '.join(reasons)})" if reasons else "no such checkpoint",
        expected=f"0, for the initial weights{f', or one of {steps}' if steps else ''}",
        action="Choose one of these, or leave --checkpoint out to take the nearest one.",
    )


def _steps(number: int) -> str:
    return f"{number:,} step{'s' * (number != 1)}"


# --- Losses of the examples of a batch under a model.


# Function (inputs, targets) → (losses float32 [batch], predictions float32 [batch, …]).
ExampleEvaluator = Callable[[dict[str, tf.Tensor], TargetsOfBatch], tuple[np.ndarray, np.ndarray]]


def example_evaluator(model: keras.Model, objective: Objective) -> ExampleEvaluator:
    """A function from a batch to its losses and predictions, one for each example.

    Losses are what training minimises, before they are added up: in nats, or in squared units of the label;
    with smoothed labels and weights if the run uses them. The model runs as in an evaluation: without
    dropout, and with the moving statistics of its batch normalizations, so that the loss of an example does
    not depend on its batch.
    """

    @tf.function(autograph=False)
    def evaluated(inputs: dict[str, tf.Tensor], targets: TargetsOfBatch) -> tuple[tf.Tensor, tf.Tensor]:
        logits = objective.of_batch(model)(inputs, training=False)
        return objective.losses(targets, logits), objective.predictions(logits)

    def evaluator(inputs: dict[str, tf.Tensor], targets: TargetsOfBatch) -> tuple[np.ndarray, np.ndarray]:
        losses, predictions = evaluated(inputs, targets)
        return losses.numpy(), predictions.numpy()

    return evaluator


def worst_first(losses: np.ndarray) -> np.ndarray:
    """Indices, int64 [n], that order losses, float32 [n]: first those that are not finite, then from the
    largest to the smallest.
    """
    sorting = np.where(np.isnan(losses), np.inf, losses)
    return np.lexsort((np.arange(len(losses)), -sorting, ~np.isnan(losses)))


class StepEvaluators:
    """Evaluators of a run's steps: one model, built once, whose weights change.

    The weights are the trained ones, not their averages, because the step started from the trained ones.

    Args:
      checkpoint: the step of the checkpoint that evaluates all steps, 0 for the initial weights; None: the
        nearest to each.
    """

    def __init__(self, workdir: Workdir, *, checkpoint: int | None) -> None:
        self._workdir, self._checkpoint = workdir, checkpoint
        self._damage_of = functools.cache(Entry.damage)
        # The step whose weights the model has. None if a run began with the weights of another source: then
        # the model, made from the seed, has the weights of no step.
        record = run_record.read(workdir.run)
        self._loaded: int | None = None if record.warm_start or record.init else 0

    def at(self, step: int) -> tuple[Weights, ExampleEvaluator]:
        """Returns the weights for the step and its evaluator, which serves until the next call.

        Raises:
          InputError: the requested checkpoint is damaged, or there is none.
        """
        weights = self._wanted(step)
        while not self._is_loaded(weights.step):
            weights = self._wanted(step)  # repeated if a run that goes on has deleted the first one
        weights = dataclasses.replace(weights, are_averaged_too=bool(self._rebuilt.averages))
        return weights, self._example_evaluator

    def _wanted(self, step: int) -> Weights:
        root, damage_of = self._workdir.checkpoints, self._damage_of
        if self._checkpoint is None:
            return nearest_checkpoint(root, step, damage_of=damage_of)
        return chosen_checkpoint(root, self._checkpoint, damage_of=damage_of)

    def _is_loaded(self, step: int) -> bool:
        """Loads the weights unless they are loaded; False where their checkpoint is gone."""
        if step != self._loaded:
            self._loaded = None  # no step until all of them are there
            if not step:
                self._rebuilt.model.set_weights(self._initial())
            elif not self._is_restored(step):
                return False
            self._loaded = step
        return True

    def _is_restored(self, step: int) -> bool:
        try:
            restored, _ = self._rebuilt.checkpoints.restore(choice=f"{step}")
        except InputError:
            if _has(self._workdir, step):
                raise
            return False
        return restored == step

    @functools.cached_property
    def _rebuilt(self) -> restore.RebuiltRun:
        return restore.rebuild_model(self._workdir.path)

    @functools.cached_property
    def _example_evaluator(self) -> ExampleEvaluator:
        return example_evaluator(self._rebuilt.model, self._rebuilt.objective)

    def _initial(self) -> list:
        """The weights with which the run began, from the seed or from the source that its config names."""
        run = self._rebuilt
        if kept := first_weights.kept(run.workdir):
            return kept
        if run.record.warm_start:
            step = run.record.warm_start["step"]
            return restore.restore_model(run.workdir.start.path, checkpoint=f"{step}").model.get_weights()
        return run.new_model(with_first_weights=True).get_weights()


def _has(workdir: Workdir, step: int) -> bool:
    return any(entry.step == step for entry in checkpoints.newest_first(workdir.checkpoints))
