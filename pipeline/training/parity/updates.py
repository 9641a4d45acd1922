"""Compares the training step's weight updates with those of a plain loop that is written separately.

The plain loop takes the whole batch on one device, makes every gradient dense, clips it, and hands it to the
optimizer. The step must give the same result on one device, on several replicas, and in micro-batches.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.reading.fetch import dataset_options
from pipeline.report.comparison import Comparison, Difference, comparison, relative_error
from pipeline.training.engine import recomputation
from pipeline.training.engine.precision import FLOAT32
from pipeline.training.engine.replicas import adapt_to_replicas
from pipeline.training.engine.step import inner_loop, train_step
from pipeline.training.experiment import optimizer as optimizer_lib
from pipeline.training.parity.subject import Begins, Subject, unheard
from pipeline.training.replay.stream import Batch

PARTS = 2  # number of replicas, and of micro-batches
_STEPS = 3
# The tolerance as a share of a variable's change. Sums in another order differ by some 1e-6, by 2e-3 where
# they decide which of two nearly equal numbers a max takes. The faults that this should find change a step by
# a tenth or more.
TOLERANCE = 1e-2
# Adam divides by √(mean of squares), so a gradient that is only rounding still makes a full step. So an
# element counts only if, in every step, its gradient is at least this many times the variable's rounding
# error. Then rounding changes a step by at most one part in this number.
_ABOVE_ROUNDING = 1_000
_CHANGE = "change"
_ADVICE = (
    "This is a fault of Penstock's training step, or of a layer that looks at its batch: please report it."
)

Changes = list[np.ndarray]  # changes of each trainable variable, float64


def check_optimizer(subject: Subject) -> None:
    """Raises InputError where the config's optimizer cannot be built for the model's variables."""
    clip_norm = subject.experiment.optimizer.clip_norm
    _optimizer(subject, subject.model().trainable_variables, clip_norm=clip_norm)


def compare(
    subject: Subject,
    one: tf.distribute.Strategy,
    many: tf.distribute.Strategy,
    *,
    begins: Begins = unheard,
) -> Iterator[Comparison]:
    """Compares the step on one device, on `PARTS` replicas, and in `PARTS` micro-batches with the plain loop.

    Args:
      one, many: a strategy of one device, and one of PARTS replicas.
      begins: receives the name of each comparison before it is made, which may take minutes.
    """
    begins(f"{_STEPS} plain steps")
    batches = subject.batches(_STEPS)
    names = [variable.path for variable in subject.model().trainable_variables]
    varies = _why_it_varies(subject, batches[0])
    exact = plain_loop(subject, batches if not varies else [])
    nothing = varies or _why_nothing(exact)

    def compared(name: str, what: str, strategy: tf.distribute.Strategy, parts: int) -> Comparison:
        begins(name)
        if why := nothing or _why_not(subject, strategy.num_replicas_in_sync * parts, is_parted=parts > 1):
            return Comparison(name=name, what=what, skipped=why)
        found = step_changes(subject, batches[: exact.steps], strategy=strategy, micro_batches=parts)
        each = differences(names, found, exact)
        return comparison(name, f"{what}{_how_much(exact, len(each))}", each, advice=_ADVICE)

    yield compared("sparse", "the step's gradients, some sparse, against dense ones", one, 1)
    yield compared("replicas", f"{PARTS} replicas against one", many, 1)
    yield compared("micro-batches", f"{PARTS} micro-batches against the whole batch", one, PARTS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plain:
    """The result of the plain loop.

    Attributes:
      steps: how many it took.
      changes: changes of each trainable variable.
      counts: for each variable, bool: which elements have gradients above rounding in every step.
    """

    steps: int
    changes: Changes
    counts: Sequence[np.ndarray]


def plain_loop(subject: Subject, batches: Sequence[Batch]) -> Plain:
    """Trains one step for each batch, without any code of the engine.

    A second model takes the same steps with the examples in the opposite order. Only rounding tells the two
    apart. It may grow from step to step, as through many layers of batch normalization: the loop ends before
    a step in which every gradient would be rounding alone.
    """
    clip = subject.experiment.optimizer.clip_norm
    ways = [_Way(subject), _Way(subject)]
    variables = ways[0].model.trainable_variables
    before, counts = _copies(ways[0].model), [np.ones(variable.shape, bool) for variable in variables]
    for steps, batch in enumerate(batches):
        turned = tf.nest.map_structure(lambda each: each[::-1], batch)
        pair = [_gradients(subject, way.model, each) for way, each in zip(ways, (batch, turned), strict=True)]
        sure = [
            _is_sure(np.asarray(one, np.float64), np.asarray(other, np.float64))
            for one, other in zip(*pair, strict=True)
        ]
        remaining = [count & each for count, each in zip(counts, sure, strict=True)]
        if steps and not any(each.any() for each in remaining):
            return Plain(steps=steps, changes=_since(before, ways[0].model), counts=counts)
        counts = remaining
        for way, gradients in zip(ways, pair, strict=True):
            if clip:
                gradients, _ = tf.clip_by_global_norm(gradients, clip)
            way.optimizer.apply(gradients, way.model.trainable_variables)
    return Plain(steps=len(batches), changes=_since(before, ways[0].model), counts=counts)


class _Way:
    """A model, and an optimizer for it."""

    def __init__(self, subject: Subject) -> None:
        self.model = subject.model()
        self.optimizer = _optimizer(subject, self.model.trainable_variables, clip_norm=0.0)


def _gradients(subject: Subject, model: keras.Model, batch: Batch) -> list[tf.Tensor]:
    """Returns dense gradients of the mean loss and the model's own losses."""
    inputs, targets = batch
    variables = model.trainable_variables
    part, objective = subject.objective.split(model)
    with tf.GradientTape() as tape:
        loss = objective.mean_loss(targets, part(inputs, training=True))
        unit = subject.objective.unit(subject.learned.spread)
        loss = loss / unit**2 + sum(model.losses)
    found = tape.gradient(loss, [variable.value for variable in variables])
    return [
        tf.zeros_like(variable.value) if gradient is None else tf.convert_to_tensor(gradient)
        for gradient, variable in zip(found, variables, strict=True)
    ]


def _is_sure(gradient: np.ndarray, backwards: np.ndarray) -> np.ndarray:
    """Returns which elements of a gradient are more than rounding, bool.

    Args:
      backwards: that of the examples in the opposite order.
    """
    rounding = max(np.abs(gradient - backwards).max(), np.finfo(np.float32).eps * np.abs(gradient).max())
    # Exact zeros are sure as well, for example in rows of a table that no example uses.
    return (np.abs(gradient) > _ABOVE_ROUNDING * rounding) | ((gradient == 0) & (backwards == 0))


def step_changes(
    subject: Subject, batches: Sequence[Batch], *, strategy: tf.distribute.Strategy, micro_batches: int
) -> Changes:
    """Returns how much the training step changes each trainable variable."""
    model, run = steps(subject, batches, strategy=strategy, micro_batches=micro_batches)
    before = _copies(model)
    run()
    return _since(before, model)


def steps(
    subject: Subject, batches: Sequence[Batch], *, strategy: tf.distribute.Strategy, micro_batches: int
) -> tuple[keras.Model, Callable[[], None]]:
    """Returns a model with its first weights, and what takes a training step with it for each batch."""
    keras.utils.clear_session(free_memory=False)  # so that layers have the names that a config's patterns fit
    with strategy.scope():
        model = subject.model()
        adapt_to_replicas(model, replicas=strategy.num_replicas_in_sync)
        clip = subject.experiment.optimizer.clip_norm
        model.optimizer = _optimizer(subject, model.trainable_variables, clip_norm=clip)
    size = subject.experiment.data.global_batch
    step = train_step(
        model,
        model.optimizer,
        task=subject.objective,
        global_batch=size,
        micro_batches=micro_batches,
        spread=subject.objective.unit(subject.learned.spread),
        recomputing=recomputation.of(model, subject.experiment.train.remat),
    )
    whole = tf.nest.map_structure(lambda *each: tf.concat(each, axis=0), *batches)

    def of_host(context: tf.distribute.InputContext) -> tf.data.Dataset:
        each = context.get_per_replica_batch_size(size)
        parts = tf.data.Dataset.from_tensor_slices(whole).batch(each, drop_remainder=True)
        return parts.with_options(dataset_options())

    loop = inner_loop(strategy, step, iter(strategy.distribute_datasets_from_function(of_host)))
    return model, lambda: loop(len(batches))


def differences(names: Sequence[str], found: Changes, exact: Plain) -> list[Difference]:
    """A difference for each variable, from the elements that count; none for a variable whose gradient is
    only rounding.
    """
    return [
        Difference(
            name=name,
            errors={_CHANGE: relative_error(one[counts], other[counts])},
            tolerances={_CHANGE: TOLERANCE},
        )
        for name, one, other, counts in zip(names, found, exact.changes, exact.counts, strict=True)
        if counts.any()
    ]


def _how_much(exact: Plain, compared: int) -> str:
    """Says what was left out; empty if nothing was."""
    steps = f"; {exact.steps} of {_STEPS} steps" if exact.steps < _STEPS else ""
    left_out = len(exact.counts) - compared
    weights = f"; {compared:,} of {len(exact.counts):,} weights" if left_out else ""
    return f"{weights}{steps}: the other gradients are near rounding" if weights or steps else ""


def _why_it_varies(subject: Subject, batch: Batch) -> str:
    """The reason why no two steps can be compared; empty if the model computes the same twice."""
    model, (inputs, _) = subject.model(), batch
    part, _ = subject.objective.split(model)
    first, again = (np.asarray(part(inputs, training=True)) for _ in range(2))
    if np.array_equal(first, again):
        return ""
    return "in training the model gives other logits each time: it draws random numbers, or keeps a state"


def _why_nothing(exact: Plain) -> str:
    """The reason why the plain loop's result is no reference for the step; empty if it is one."""
    if not all(np.isfinite(change).all() for change in exact.changes):
        return f"{_STEPS} plain steps give weights that are not finite: no step is compared with them"
    return "" if any(count.any() for count in exact.counts) else "all gradients are rounding alone"


def _why_not(subject: Subject, parts: int, *, is_parted: bool) -> str:
    """The reason why a batch in `parts` parts cannot give the same result; empty if it can."""
    global_batch = subject.experiment.data.global_batch
    if global_batch % parts:
        return f"config.global_batch={global_batch} is no multiple of {parts}"
    layers = subject.model()._flatten_layers()  # Keras (3.15) has no public way to layers in layers
    if is_parted and any(isinstance(layer, keras.layers.BatchNormalization) for layer in layers):
        return "each micro-batch has batch normalization statistics of its own, by design"
    return ""


def _optimizer(
    subject: Subject, variables: Sequence[keras.Variable], *, clip_norm: float
) -> keras.optimizers.Optimizer:
    """The config's optimizer, with its full learning rate from the first step: tiny steps would be lost in
    rounding.
    """
    args = dataclasses.replace(
        subject.experiment.optimizer,
        schedule="constant",
        warmup_steps=0,
        warmup_part=0.0,
        clip_norm=clip_norm,
    )
    return optimizer_lib.build(args, variables, total_steps=_STEPS, precision=FLOAT32)


def _copies(model: keras.Model) -> Changes:
    return [np.array(variable, np.float64) for variable in model.trainable_variables]


def _since(before: Changes, model: keras.Model) -> Changes:
    return [after - was for after, was in zip(_copies(model), before, strict=True)]
