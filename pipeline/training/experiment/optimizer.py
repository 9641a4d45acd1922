"""The optimizer and its learning rate, from a config."""

import fnmatch
import inspect
import math
import types
from collections.abc import Callable, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from pipeline.base.errors import InputError, unknown_name
from pipeline.base.own_code import named, naming_line
from pipeline.training.engine import rows
from pipeline.training.engine.precision import Precision
from pipeline.training.experiment import code
from pipeline.training.experiment import config as config_lib
from pipeline.training.experiment.model import matching
from pipeline.training.experiment.tables import NO_TABLES, Tables

KERNELS = ("*kernel",)  # the default of optimizer.matrices
# Decaying scales and offsets only shrinks the signal (Goyal et al. 2017, section 5.3, leave them out too).
_NOT_DECAYED = ("bias", "gamma", "beta", "scale")


def build(
    args: config_lib.Optimizer,
    variables: Sequence[keras.Variable],
    *,
    total_steps: int,
    precision: Precision,
    tables: Tables = NO_TABLES,
) -> keras.optimizers.Optimizer:
    """Makes the optimizer of `variables`.

    Weight decay is decoupled from the gradient (Loshchilov & Hutter 2019), and scaled by the learning rate.

    Args:
      tables: tables that can be updated by rows; `args.sparse` says whether they are.

    Raises:
      InputError: its name or schedule is unknown, or no variable's path matches a pattern of `not_decayed`
        or `rates`; or it cannot update tables by rows, and must.
    """
    rate = _learning_rate(args, total_steps)
    optimizer = _OPTIMIZERS.get(args.name, _named)(args, rate)
    if isinstance(rate, Following):
        _require_rates(rate, rate.schedule, total_steps, thing=f"--config.optimizer.schedule={args.schedule}")
    if args.name not in _OPTIMIZERS:
        _require_usable(optimizer, rate, args, total_steps)
    if isinstance(optimizer, Muon):
        optimizer.take(_matrices(args.matrices, variables))
    _clip(optimizer, args)
    named = matching(args.not_decayed, variables, key="optimizer.not_decayed")
    usual = [each for each in variables if _is_not_decayed(each)]
    optimizer.exclude_from_weight_decay(var_list=[*usual, *named])
    if by_rows := tables.by_rows(args, optimizer):
        rows.update_by_rows(optimizer, by_rows)
    if args.rates:
        _multiply_rates(optimizer, _factors(args.rates, variables))
    whole = keras.optimizers.LossScaleOptimizer(optimizer) if precision.needs_loss_scaling else optimizer
    thing, otherwise = f"--config.optimizer.name={args.name}", "Correct its build()."
    with naming_line(thing, optimizer, expected="code that can be run", otherwise=otherwise):
        whole.build(variables)
    return whole


_SAMPLES = 100  # steps of a run at which rates are tried


def _require_rates(
    rate: keras.optimizers.schedules.LearningRateSchedule, made: object, total_steps: int, *, thing: str
) -> None:
    """Raises InputError where a schedule has no learning rate for a step: a negative one would train away
    from the data in silence.
    """
    expected, correct = "a learning rate for each step, a number from 0 on", f"Correct {named(made)}."
    steps = sorted({*range(0, total_steps, max(1, total_steps // _SAMPLES)), max(0, total_steps - 1)})
    with naming_line(thing, made, expected=expected, otherwise=correct):
        rates = [np.asarray(rate(tf.constant(step, tf.int64)), np.float64) for step in steps]
    for step, each in zip(steps, rates, strict=True):
        if each.size != 1 or not 0.0 <= float(each.reshape(())) < math.inf:
            found = f"{float(each.reshape(())):g}" if each.size == 1 else f"{each.size} numbers"
            raise InputError(thing, received=f"{found} at step {step:,}", expected=expected, action=correct)
    if not any(float(each.reshape(())) for each in rates):
        raise InputError(
            thing,
            received="a learning rate of 0 at all steps",
            expected="one above 0, without which no weight changes",
            action=correct,
        )


def _require_usable(
    optimizer: keras.optimizers.Optimizer, rate: "_LearningRate", args: config_lib.Optimizer, total_steps: int
) -> None:
    """Raises InputError for an optimizer that lacks a part of itself, or has another rate that is none."""
    thing, base = f"--config.optimizer.name={args.name}", keras.optimizers.Optimizer
    own = getattr(optimizer, "_learning_rate", None)  # Keras (3.15): a variable or a schedule
    if own is None or not hasattr(optimizer, "global_clipnorm"):
        raise InputError(
            thing,
            received="an optimizer without the attributes of keras.optimizers.Optimizer",
            expected="one whose base class was set up",
            action="Begin its __init__ with super().__init__(learning_rate).",
        )
    steps = ("update_step", "_backend_update_step", "apply")  # any of them may be its own
    if all(getattr(type(optimizer), each) is getattr(base, each) for each in steps):
        raise InputError(
            thing,
            received="an optimizer without update_step",
            expected="one with update_step(self, gradient, variable, learning_rate)",
            action="Define it in its class: it changes the variable.",
        )
    if isinstance(own, keras.optimizers.schedules.LearningRateSchedule):
        if own is not rate:
            _require_rates(own, own, total_steps, thing=thing)
        return
    found = float(tf.convert_to_tensor(optimizer.learning_rate))  # with replicas, a variable of several
    if not 0.0 <= found < math.inf:
        raise InputError(
            thing,
            received=f"an optimizer with a learning rate of {found:g}",
            expected="a number from 0 on",
            action="Have it take learning_rate, which is that of the config.",
        )


def codes_of(args: config_lib.Optimizer) -> tuple[code.Code, ...]:
    """The code of optimizer and schedule, where the config names it with its module."""
    texts = {"--config.optimizer.name": args.name, "--config.optimizer.schedule": args.schedule}
    named = ((key, code.call(text, key=key)[0]) for key, text in texts.items())
    return tuple(code.find(name, key=key, place=args.place) for key, name in named if code.is_named(name))


def _clip(optimizer: keras.optimizers.Optimizer, args: config_lib.Optimizer) -> None:
    """Has the optimizer clip by the config's norm; raises InputError if it already clips: Keras does one."""
    for name in ("clipnorm", "clipvalue"):
        if args.clip_norm and getattr(optimizer, name):
            raise InputError(
                "--config.optimizer.clip_norm",
                received=f"{args.clip_norm:g}, beside {name}={getattr(optimizer, name):g} of {args.name}",
                expected="one way to clip: Keras would leave the other out in silence",
                action=f"Set --config.optimizer.clip_norm=0, or leave {name} out.",
            )
    optimizer.global_clipnorm = args.clip_norm or optimizer.global_clipnorm


def _matrices(patterns: Sequence[str], variables: Sequence[keras.Variable]) -> list[keras.Variable]:
    """The variables of Muon; none where the config leaves the patterns at their default, and none matches."""
    if tuple(patterns) == KERNELS and not any(fnmatch.fnmatchcase(each.path, *KERNELS) for each in variables):
        return []
    return matching(patterns, variables, key="optimizer.matrices")


def notes(args: config_lib.Optimizer, variables: Sequence[keras.Variable]) -> tuple[str, ...]:
    """A line where Muon has no matrix; else none."""
    if args.name != "muon" or not args.matrices or _matrices(args.matrices, variables):
        return ()
    return (f"matrices   none: no variable is called {KERNELS[0]!r}, so adamw updates all",)


def has_schedule(args: config_lib.Optimizer, total_steps: int) -> bool:
    """Returns whether the learning rate follows a schedule: then no callback can set it."""
    return not isinstance(_learning_rate(args, total_steps), float)


WARMUP_ADVICE = "--config.optimizer.warmup_steps=0 --config.optimizer.warmup_part=0.05 is a part of any run"


def warmup_warning(warmup_steps: int, total_steps: int) -> str:
    """Says that a warm-up of `warmup_steps` takes most of the run; empty where it does not."""
    warmup = _warmup(warmup_steps, 0.0, total_steps)
    if 2 * warmup <= total_steps:
        return ""
    return (
        f"the learning rate rises in {warmup:,} of the {total_steps:,} steps "
        f"(config.optimizer.warmup_steps={warmup_steps})"
    )


def _warmup(steps: int, part: float, total_steps: int) -> int:
    """The steps in which the learning rate rises: `steps`, else a part of the run; at least one is left."""
    return max(0, min(steps or round(part * total_steps), total_steps - 1))


def _is_not_decayed(variable: keras.Variable) -> bool:
    # This compares the variable's own name: Keras's var_names would leave out every variable whose layer's
    # name has such a word.
    return variable.path.rsplit("/", 1)[-1] in _NOT_DECAYED


_LearningRate = float | keras.optimizers.schedules.LearningRateSchedule

# The optimizers of config.OWN_OPTIMIZERS.
_OPTIMIZERS: Mapping[str, Callable[[config_lib.Optimizer, _LearningRate], keras.optimizers.Optimizer]] = {
    "adamw": lambda args, rate: AdamW(rate, weight_decay=args.weight_decay),
    "adam": lambda args, rate: Adam(rate),
    "sgd": lambda args, rate: keras.optimizers.SGD(
        rate, momentum=args.momentum, weight_decay=args.weight_decay or None
    ),
    "adagrad": lambda args, rate: Adagrad(rate, weight_decay=args.weight_decay or None),
    # Momentum as published; sgd's 0.9 is the config's default.
    "muon": lambda args, rate: Muon(rate, weight_decay=args.weight_decay or None, adam_beta_2=0.95),
}


# Keras's optimizers have these arguments, but they would act on each replica separately, or not at all under
# a strategy. The keys beside them do the same for all replicas.
_DONE_HERE = {
    "learning_rate": "learning_rate",
    "gradient_accumulation_steps": "train.micro_batches",
    "use_ema": "ema",
    "global_clipnorm": "clip_norm",
}


def _named(args: config_lib.Optimizer, rate: _LearningRate) -> keras.optimizers.Optimizer:
    """One of keras.optimizers, or what code makes; it gets the values of the config that it takes."""
    key, library = "--config.optimizer.name", keras.optimizers
    name, inline = code.call(args.name, key=key)
    if name in _OPTIMIZERS:
        action = "Write the name, and set keys of config.optimizer. Keras's, such as Adam, take arguments."
        raise code.no_arguments(args.name, key=key, action=action)
    if not code.is_named(name) and not hasattr(library, name):
        raise _unknown("name", name, (*_OPTIMIZERS, *_classes(library, keras.optimizers.Optimizer)))
    found = code.resolve(name, key=key, library=library.__name__, place=args.place)
    given = {**args.options, **inline}
    for argument in sorted({*given} & {*_DONE_HERE}):
        ours = _DONE_HERE[argument]
        raise InputError(
            f"{key}={name}",
            received=f"the argument {argument}",
            expected="others: Penstock does that itself, for all replicas",
            action=f"Set --config.{ours if '.' in ours else f'optimizer.{ours}'} instead.",
        )
    made = code.build_offered(found, given, {"learning_rate": rate, **_offered(args)}, name=name, key=key)
    if not isinstance(made, keras.optimizers.Optimizer):
        raise _another(key, name, made, "a keras.optimizers.Optimizer")
    return made


def _offered(args: config_lib.Optimizer) -> dict[str, float | None]:
    """The values of the config that an optimizer gets, if it takes them, besides the learning rate."""
    return {"weight_decay": args.weight_decay or None, "momentum": args.momentum}


def announced(args: config_lib.Optimizer) -> tuple[str, ...]:
    """Describes, in a line, which values of a Keras optimizer are not its defaults; none if all are."""
    name, inline = code.call(args.name, key="--config.optimizer.name")
    found = getattr(keras.optimizers, name.removeprefix("keras.optimizers:"), None)
    if name in _OPTIMIZERS or not isinstance(found, type):
        return ()
    own = {each.name: each.default for each in inspect.signature(found).parameters.values()}
    set_here = {
        argument: value
        for argument, value in _offered(args).items()
        if argument in own and argument not in {*inline, *args.options} and value != own[argument]
    }
    values = (f"{argument} {value} (Keras: {own[argument]})" for argument, value in set_here.items())
    return (f"optimizer  {name} with the config's {', '.join(values)}",) if set_here else ()


def _classes(library: types.ModuleType, base: type) -> list[str]:
    found = {name: each for name, each in vars(library).items() if isinstance(each, type)}
    return [name for name, each in found.items() if issubclass(each, base) and each is not base]


def _another(key: str, name: str, made: object, expected: str) -> InputError:
    received = f"an object of the class {type(made).__name__}"
    return InputError(f"{key}={name}", received=received, expected=expected, action="Have it return one.")


def _learning_rate(args: config_lib.Optimizer, total_steps: int) -> _LearningRate:
    warmup = _warmup(args.warmup_steps, args.warmup_part, total_steps)
    if args.schedule == "constant" and not warmup:
        return args.learning_rate  # a number, which ReduceLROnPlateau can set
    if args.schedule not in SCHEDULES:
        return Following(_named_schedule(args, total_steps - warmup), warmup=warmup)
    return WarmedUp(args.schedule, peak=args.learning_rate, warmup=warmup, total=total_steps)


def _named_schedule(
    args: config_lib.Optimizer, steps: int
) -> keras.optimizers.schedules.LearningRateSchedule:
    """One of keras.optimizers.schedules, or what code makes, for the `steps` after the warm-up."""
    key, library = "--config.optimizer.schedule", keras.optimizers.schedules
    name, given = code.call(args.schedule, key=key)
    if name in SCHEDULES:
        action = "Write the name, or one of Keras's, such as CosineDecay, which take arguments."
        raise code.no_arguments(args.schedule, key=key, action=action)
    if not code.is_named(name) and not hasattr(library, name):
        base = library.LearningRateSchedule
        raise _unknown("schedule", name, (*SCHEDULES, *_classes(library, base)))
    found = code.resolve(name, key=key, library=library.__name__, place=args.place)
    rate = args.learning_rate
    offered = {
        "initial_learning_rate": rate,
        "learning_rate": rate,
        "decay_steps": steps,
        "total_steps": steps,
    }
    made = code.build_offered(found, given, offered, name=name, key=key)
    if not isinstance(made, library.LearningRateSchedule):
        raise _another(key, name, made, "a keras.optimizers.schedules.LearningRateSchedule")
    return made


def _unknown(field: str, received: str, known: tuple[str, ...]) -> InputError:
    otherwise = "Choose one of these in the config file or on the command line."
    return unknown_name(f"--config.optimizer.{field}", received, known, otherwise=otherwise)


# --- Learning rates over a run: a linear warm-up, then one of SCHEDULES.


# Fraction of the peak, as a function of the progress (from the end of the warm-up to the end of the run, 0 …
# 1), the step, and the warm-up.
_Decay = Callable[[object, object, float], object]
SCHEDULES: Mapping[str, _Decay] = {
    "constant": lambda progress, step, warmup: ops.ones_like(progress),
    # Loshchilov & Hutter 2017, "SGDR", equation 5, without restarts.
    "cosine": lambda progress, step, warmup: 0.5 * (1.0 + ops.cos(math.pi * progress)),
    "linear": lambda progress, step, warmup: 1.0 - progress,
    # Vaswani et al. 2017, "Attention Is All You Need", equation 3, scaled to a peak of 1. As in the other
    # schedules, two steps have the peak: the last one of the warm-up and the first one after it.
    "rsqrt": lambda progress, step, warmup: ops.sqrt(warmup / ops.maximum(step, warmup)),
}


@keras.saving.register_keras_serializable("penstock")
class WarmedUp(keras.optimizers.schedules.LearningRateSchedule):
    """The rate of a step, from 0: `peak` * (step + 1) / `warmup` during the warm-up, then the schedule's.

    The first step's rate is above 0; otherwise the step would change nothing. `total` is the number of steps
    of the run.
    """

    def __init__(self, schedule: str, *, peak: float, warmup: int, total: int) -> None:
        self.schedule, self.peak, self.warmup, self.total = schedule, peak, warmup, total

    def __call__(self, step: object) -> object:
        step = ops.cast(step, "float32")
        rising = (step + 1.0) / max(1, self.warmup)
        progress = ops.clip((step - self.warmup) / max(1, self.total - self.warmup), 0.0, 1.0)
        falling = SCHEDULES[self.schedule](progress, step, float(max(1, self.warmup)))
        return self.peak * ops.where(step < self.warmup, rising, falling)

    def get_config(self) -> dict:
        return dict(vars(self))


@keras.saving.register_keras_serializable("penstock")
class Following(keras.optimizers.schedules.LearningRateSchedule):
    """The rate of a step: during the warm-up it rises to the first rate of another schedule, which then
    begins.
    """

    def __init__(self, schedule: keras.optimizers.schedules.LearningRateSchedule, *, warmup: int) -> None:
        self.schedule, self.warmup = schedule, warmup

    def __call__(self, step: object) -> object:
        step = ops.cast(step, "float32")
        rising = ops.cast(self.schedule(0), "float32") * (step + 1.0) / max(1, self.warmup)
        following = ops.cast(self.schedule(ops.maximum(step - self.warmup, 0.0)), "float32")
        return ops.where(step < self.warmup, rising, following)

    def get_config(self) -> dict:
        return dict(vars(self))


# --- Learning rates by variable: multiples of the schedule's, for any optimizer of Keras.


def _factors(rates: Sequence[tuple[str, float]], variables: Sequence[keras.Variable]) -> list[float]:
    """Returns the factor on each variable's learning rate, from the first pattern that matches."""
    factors: dict[int, float] = {}
    for pattern, factor in rates:
        for variable in matching((pattern,), variables, key="optimizer.rates"):
            factors.setdefault(id(variable), factor)
    return [factors.get(id(variable), 1.0) for variable in variables]


def _multiply_rates(optimizer: keras.optimizers.Optimizer, factors: Sequence[float]) -> None:
    """Multiplies the learning rates of the update and of the weight decay, which is scaled by the rate."""
    update, decay = optimizer.update_step, optimizer._apply_weight_decay
    whole = (
        optimizer.weight_decay
    )  # read here, because replicas are traced in turns, and one would see another's factor

    def update_step(gradient: tf.Tensor, variable: tf.Variable, learning_rate: object) -> None:
        factor = factors[optimizer._get_variable_index(variable)]
        rate = (
            learning_rate if factor == 1.0 else tf.nest.map_structure(lambda one: one * factor, learning_rate)
        )
        update(gradient, variable, rate)

    def apply_weight_decay(variables: Sequence[keras.Variable]) -> None:
        by_factor: dict[float, list[keras.Variable]] = {}
        for variable in variables:
            by_factor.setdefault(factors[optimizer._get_variable_index(variable)], []).append(variable)
        for factor, some in by_factor.items() if whole else ():
            optimizer.weight_decay = whole * factor
            decay(some)
        optimizer.weight_decay = whole

    optimizer.update_step, optimizer._apply_weight_decay = update_step, apply_weight_decay


# --- Keras's Adam and AdamW, with the update of a variable in one pass over it instead of ten.
#
# The formula is Keras's (Kingma & Ba 2015, the form before section 2.1, with its epsilon):
#
# m += (g − m)(1 − β₁);  v += (g² − v)(1 − β₂);  w −= rate × √(1 − β₂ᵗ) / (1 − β₁ᵗ) × m / (√v + ε)
#
# An update differs from Keras's by up to 1e-4 of its size, because the kernel computes 1 − β₂ in float32.
# Compared with Keras's, it saves 5% of the CPU time of `adult_wide_deep.py` (TensorFlow 2.21, 2 cores,
# measured): 2% because gradients below the clipping norm are not multiplied, and 1% because the learning rate
# is computed once for all variables.


class _Fused:
    """Adds the fused update to Keras classes that keep Adam's moments. It is not for `amsgrad`."""

    def _clip_gradients(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        return rows.clipped(gradients, self.global_clipnorm)

    def _apply_weight_decay(self, variables: Sequence[keras.Variable]) -> None:
        """Does nothing: `update_step` applies the decay. Keras (3.15, measured) computes the rate again for
        each variable.
        """

    def _backend_update_step(
        self,
        gradients: Sequence[tf.Tensor],
        variables: Sequence[keras.Variable],
        learning_rate: tf.Tensor | float,
    ) -> None:
        rate = tf.cast(learning_rate, tf.float32)
        step = tf.cast(self.iterations.value + 1, tf.float32)
        corrected = rate * tf.sqrt(1 - tf.pow(self.beta_2, step)) / (1 - tf.pow(self.beta_1, step))
        super()._backend_update_step(gradients, variables, (corrected, rate * (self.weight_decay or 0.0)))

    def update_step(
        self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tuple[tf.Tensor, tf.Tensor]
    ) -> None:
        """Changes the variable; `gradient` is dense, of its shape, and already summed over replicas.

        Args:
          learning_rate: two float32 []: the rate with the correction of the moments' bias, and the rate times
            the weight decay.
        """
        corrected, decay = (tf.cast(each, variable.dtype) for each in learning_rate)
        if self.weight_decay and self._use_weight_decay(variable):
            variable.assign_sub(variable * decay)
        m, v = self._moments_of(variable)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=m.handle,
            v=v.handle,
            beta1_power=tf.zeros([], variable.dtype),  # `corrected` includes both corrections
            beta2_power=tf.zeros([], variable.dtype),
            lr=corrected,
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=tf.cast(gradient, variable.dtype),
        )

    def update_rows(
        self, gradient: tf.IndexedSlices, variable: tf.Variable, learning_rate: tuple[tf.Tensor, tf.Tensor]
    ) -> None:
        """Changes the rows of a table, and their moments, that have a gradient: "lazy" Adam.

        The others stay as they are: their moments do not shrink, and do not move them further.
        """
        corrected, decay = (tf.cast(each, variable.dtype) for each in learning_rate)
        ids, g = gradient.indices, gradient.values
        rows.decay_rows(self, ids, variable, decay)
        m, v = self._moments_of(variable)
        first, second = rows.rows_of(m, ids), rows.rows_of(v, ids)
        first += (g - first) * (1 - self.beta_1)
        second += (tf.square(g) - second) * (1 - self.beta_2)
        rows.put(m, ids, first)
        rows.put(v, ids, second)
        rows.subtract(variable, ids, corrected * first / (tf.sqrt(second) + self.epsilon))

    def _moments_of(self, variable: tf.Variable) -> tuple[tf.Variable, tf.Variable]:
        # Keras (3.15) has no public name for the moments of a variable.
        index = self._get_variable_index(variable)
        return self._momentums[index].value, self._velocities[index].value


# They have the names of Keras's classes, because variables are named after the class, in checkpoints too.
class Adam(_Fused, keras.optimizers.Adam):
    """`keras.optimizers.Adam`, with one kernel for each variable."""


class AdamW(_Fused, keras.optimizers.AdamW):
    """`keras.optimizers.AdamW`, one kernel a variable after its decay."""


class Adagrad(keras.optimizers.Adagrad):
    """`keras.optimizers.Adagrad`, whose sums of squares begin without another copy of each variable.

    Keras (3.15) multiplies ones by a number, and TensorFlow keeps the memory of both.
    """

    def add_optimizer_variables(
        self, trainable_variables: Sequence[keras.Variable], name: str, initializer: object = "zeros"
    ) -> list[keras.Variable]:
        begin = self.initial_accumulator_value
        return super().add_optimizer_variables(
            trainable_variables, name, lambda shape, dtype: tf.fill(shape, tf.cast(begin, dtype))
        )

    def update_rows(self, gradient: tf.IndexedSlices, variable: tf.Variable, rate: object) -> None:
        rows.adagrad(self, gradient, variable, rate)


# --- Muon for matrices, AdamW for everything else.


class Muon(keras.optimizers.Muon):
    """`keras.optimizers.Muon` for the variables that it is told to take, and AdamW for the others.

    Jordan 2024, "Muon: An optimizer for hidden layers in neural networks", with the update's size of Liu et
    al. 2025, "Muon is Scalable for LLM Training", so that both share a learning rate and a weight decay. Left
    to itself, Keras (3.15) takes every variable of two axes: in its attention the biases have two, and the
    kernels three.
    """

    def take(self, variables: Sequence[keras.Variable]) -> None:
        """Names the variables that Muon updates; those of other than two axes are left to AdamW."""
        self._matrices = {id(each) for each in variables if len(each.shape) == 2}

    def _should_use_adamw(self, variable: keras.Variable) -> bool:
        return id(variable) not in self._matrices

    def _apply_weight_decay(self, variables: Sequence[keras.Variable]) -> None:
        """Applies one decay to all variables; Keras has a second one for those that AdamW updates."""
        keras.optimizers.Optimizer._apply_weight_decay(self, variables)
