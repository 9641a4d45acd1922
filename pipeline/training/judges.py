"""What judges a step: the model of the run, with the weights of the checkpoint nearest to the step."""

import dataclasses
import functools

from pipeline.data.errors import InputError
from pipeline.training import restore
from pipeline.training.engine.precision import Precision
from pipeline.training.experiment.model import build_model
from pipeline.training.replaying.losses import Judge, judge_of
from pipeline.training.replaying.weights import Weights, asked_for, damage, nearest
from pipeline.training.state import run_record
from pipeline.training.state.checkpoints import directory
from pipeline.training.state.workdir import Workdir


class Judges:
    """The judges of a run's steps: one model, built once, whose weights change.

    The weights are those that are trained, not their averages: they are what the step was taken from.

    Args:
      checkpoint: the step of the checkpoint that judges all steps, 0 for the initial weights; None: the
        nearest to each.
    """

    def __init__(self, workdir: Workdir, *, checkpoint: int | None) -> None:
        self._workdir, self._checkpoint = workdir, checkpoint
        self._damage_of = functools.cache(damage)
        # The step of the model's weights; None: not all of one step. The seed does not give those of a start.
        self._loaded: int | None = None if run_record.read(workdir.run).warm_start else 0

    def at(self, step: int) -> tuple[Weights, Judge]:
        """What judges the step; the judge serves until the next call.

        Raises:
          InputError: the checkpoint that was asked for is damaged, or there is none.
        """
        weights = self._wanted(step)
        while not self._is_loaded(weights.step):
            weights = self._wanted(step)  # a run that goes on has deleted the first one
        return dataclasses.replace(weights, are_averaged_too=bool(self._rebuilt.averages)), self._judge

    def _wanted(self, step: int) -> Weights:
        root, damage_of = self._workdir.checkpoints, self._damage_of
        if self._checkpoint is None:
            return nearest(root, step, damage_of=damage_of)
        return asked_for(root, self._checkpoint, damage_of=damage_of)

    def _is_loaded(self, step: int) -> bool:
        """Loads the weights unless they are loaded; False where their checkpoint is gone."""
        if step != self._loaded:
            self._loaded = None  # until all of them are there
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
    def _judge(self) -> Judge:
        return judge_of(self._rebuilt.model, self._rebuilt.objective)

    def _initial(self) -> list:
        """The weights that the seed gives, or the run that this one began with: [n] arrays."""
        run = self._rebuilt
        if run.record.warm_start:
            step = run.record.warm_start["step"]
            return restore.restore_model(run.workdir.start.path, checkpoint=f"{step}").model.get_weights()
        precision = Precision(**run.record.precision)
        model = build_model(run.config, schema=run.schema, inputs=run.preprocess.inputs, precision=precision)
        return model.get_weights()


def _has(workdir: Workdir, step: int) -> bool:
    return any(entry.step == step for entry in directory.newest_first(workdir.checkpoints))
