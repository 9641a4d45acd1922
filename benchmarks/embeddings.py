r"""What a training step costs for each id that it looks up in a large embedding table; CPU time and memory.

  python -m benchmarks.embeddings [--rows=100000,10000000] [--optimizers=adagrad] [--dense] [--rounds=3]

Each figure is of a process of its own, and the processes of a round take turns: medians over the rounds. A
step looks up 4,096 × 8 ids, drawn evenly, in a table with 16 numbers a row. `--dense` adds updates of all
rows (`config.optimizer.sparse=never`), which 1,000,000 rows are enough to show. The exit code is 1 where an
id of the largest table costs over 0.5 µs more than one of the smallest, or Adagrad by rows takes over 2.2 GB.

Hardware: any, with 4 GB of memory. Duration: on 2 cores 3 minutes.
"""

import concurrent.futures
import dataclasses
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Sequence

from absl import app, flags

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

_ROWS = flags.DEFINE_list("rows", ["100000", "10000000"], "Rows of the tables.")
_OPTIMIZERS = flags.DEFINE_list("optimizers", ["adagrad"], "Optimizers: adagrad, sgd, adam, adamw.")
_DENSE = flags.DEFINE_bool("dense", False, "Also updates all rows of the tables.")
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Processes for each figure.", lower_bound=1)

_MOST_US, _MOST_GB = 0.5, 2.2
_EXAMPLES, _COLUMNS, _SIZE = 4_096, 8, 16
_BATCHES, _STEPS = 8, 20  # different batches; steps of a measured call


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A table, and how it is updated."""

    rows: int
    optimizer: str
    sparse: str  # a value of config.optimizer.sparse

    def __str__(self) -> str:
        how = {"always": "by rows", "never": "all rows"}[self.sparse]
        return f"{self.rows:,} × {_SIZE}, {self.optimizer}, {how}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cost:
    """CPU microseconds of a step for each id that it looks up, and the process's peak of memory in GB."""

    us: float
    gb: float


def measured(case: Case) -> Cost:
    """The cost of a case in this process, which should have done nothing else."""
    import keras
    import numpy as np
    import tensorflow as tf

    from models.embedding import OffsetEmbedding
    from pipeline.configs import base
    from pipeline.training.engine.precision import FLOAT32
    from pipeline.training.engine.step import inner_loop, train_step
    from pipeline.training.experiment import config as config_lib
    from pipeline.training.experiment import optimizer as optimizer_lib
    from pipeline.training.experiment.tables import tables_of
    from pipeline.training.tasks.classification import Regression

    ids = keras.Input((_COLUMNS,), dtype="int32", name="ids")
    cardinalities = [case.rows // _COLUMNS] * _COLUMNS
    embedded = keras.layers.Flatten()(OffsetEmbedding(cardinalities, _SIZE)(ids))
    model = keras.Model([ids], keras.layers.Dense(1)(embedded))

    config = base.get_config()
    config.optimizer.update(name=case.optimizer, sparse=case.sparse, momentum=0.0, weight_decay=0.0)
    optimizer = optimizer_lib.build(
        config_lib.parse(config.to_dict()).optimizer,
        model.trainable_variables,
        total_steps=1_000,
        precision=FLOAT32,
        tables=tables_of(model, is_compiled=False, is_scaled=False),
    )

    draw = np.random.default_rng(0)
    drawn = draw.integers(0, cardinalities[0], (_BATCHES, _EXAMPLES, _COLUMNS), dtype="int32")
    labels = draw.normal(size=(_BATCHES, _EXAMPLES)).astype("float32")
    batches = tf.data.Dataset.from_tensor_slices(({"ids": drawn}, labels)).repeat()
    step = train_step(model, optimizer, task=Regression(), global_batch=_EXAMPLES)
    strategy = tf.distribute.get_strategy()
    run = inner_loop(strategy, step, iter(batches), updated=model.trainable_variables)
    run(_BATCHES)  # memory that is touched for the first time costs more
    begun = time.process_time()
    run(_STEPS)
    seconds = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Cost(us=1e6 * seconds / (_STEPS * _EXAMPLES * _COLUMNS), gb=peak / 1e9)


def _in_a_process(case: Case) -> Cost:
    spawned = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawned) as pool:
        found = pool.submit(measured, case).result()
    print(f"{case}: {found.us:.3f} µs an id, {found.gb:.2f} GB", file=sys.stderr, flush=True)
    return found


def holds(costs: dict[Case, Cost]) -> bool:
    """Whether the updates by rows of each optimizer are within the limits."""
    by_rows = {case: cost for case, cost in costs.items() if case.sparse == "always"}
    for name in {case.optimizer for case in by_rows}:
        own = sorted((case.rows, cost.us) for case, cost in by_rows.items() if case.optimizer == name)
        if own[-1][1] - own[0][1] > _MOST_US:
            return False
    return all(cost.gb <= _MOST_GB for case, cost in by_rows.items() if case.optimizer == "adagrad")


def main(argv: Sequence[str]) -> int:
    del argv
    ways = ["always", *(["never"] if _DENSE.value else [])]
    cases = [
        Case(rows=int(rows), optimizer=name, sparse=way)
        for name in _OPTIMIZERS.value
        for way in ways
        for rows in _ROWS.value
    ]
    rounds = [{case: _in_a_process(case) for case in cases} for _ in range(_ROUNDS.value)]
    costs = {
        case: Cost(
            us=statistics.median(each[case].us for each in rounds), gb=max(each[case].gb for each in rounds)
        )
        for case in cases
    }
    print("CPU time of a step for each id, medians, and the most memory of a process:")
    for case, cost in costs.items():
        step_ms = 1e-3 * cost.us * _EXAMPLES * _COLUMNS
        print(f"{case}: {cost.us:.3f} µs, {step_ms:.0f} ms a step, {cost.gb:.2f} GB")
    return not holds(costs)


if __name__ == "__main__":
    app.run(main)
