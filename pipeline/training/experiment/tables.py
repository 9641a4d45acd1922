"""Which tables of a model are updated by rows, and why others are not."""

import dataclasses
import math
from collections.abc import Sequence

import keras

from models.embedding import OffsetEmbedding
from pipeline.base.errors import InputError
from pipeline.training.engine import rows
from pipeline.training.experiment import config as config_lib

AUTO, ALWAYS, NEVER = config_lib.SPARSE


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tables:
    """The trained tables of which a step reads single rows, so that it can update these rows alone.

    Attributes:
      hindrance: why the run cannot update by rows with any optimizer; empty: it can.
    """

    variables: Sequence[keras.Variable]
    hindrance: str = ""

    def by_rows(
        self, args: config_lib.Optimizer, optimizer: keras.optimizers.Optimizer
    ) -> list[keras.Variable]:
        """The tables that the optimizer updates by rows.

        Raises:
          InputError: they should be, and cannot.
        """
        wanted = self._wanted(args.sparse)
        why = self._why_not(args, optimizer) if wanted else ""
        if why and args.sparse == ALWAYS:
            raise InputError(
                "--config.optimizer.sparse",
                received=f"{ALWAYS}, but {why}",
                expected="an optimizer and a run that can update tables by rows",
                action="Choose such ones (docs/training.md), or --config.optimizer.sparse=auto.",
            )
        return [] if why else wanted

    def lines(self, args: config_lib.Optimizer, optimizer: keras.optimizers.Optimizer) -> list[str]:
        """Lines on tables: how large ones, and those that are updated by rows, are updated."""
        wanted = self._wanted(args.sparse)
        if not wanted:
            return []
        names = ", ".join(f"{each.path} {each.shape[0]:,} × {each.shape[1]:,}" for each in wanted)
        if why := self._why_not(args, optimizer):
            return [f"tables     each step updates all rows of {names}: {why}"]
        decay = " and decays" if optimizer.weight_decay else ""
        return [f"tables     each step updates{decay} only the rows of its ids in {names}"]

    def _wanted(self, sparse: str) -> list[keras.Variable]:
        least = {AUTO: rows.LARGE, ALWAYS: 0, NEVER: math.inf}[sparse]
        return [each for each in self.variables if math.prod(each.shape) >= least]

    def _why_not(self, args: config_lib.Optimizer, optimizer: keras.optimizers.Optimizer) -> str:
        if args.ema:
            return f"config.optimizer.ema={args.ema:g} averages every row"
        return self.hindrance or rows.why_not(optimizer)


NO_TABLES = Tables(variables=())


def tables_of(model: keras.Model, *, is_compiled: bool, is_scaled: bool) -> Tables:
    """The tables of a model.

    Args:
      is_compiled: whether XLA compiles the step.
      is_scaled: whether the loss is scaled, as in float16.
    """
    layers = [each for each in model._flatten_layers() if isinstance(each, OffsetEmbedding)]
    trained = set(map(id, model.trainable_variables))
    hindrance = "XLA compiles the step, and needs to know how many rows that are" if is_compiled else ""
    hindrance = hindrance or ("the loss of float16 is scaled" if is_scaled else "")
    variables = {id(each.table): each.table for each in layers if id(each.table) in trained}
    return Tables(variables=tuple(variables.values()), hindrance=hindrance)
