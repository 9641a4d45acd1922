"""Lowers the training step of an experiment to the program that a compiler gets, for one device's batch."""

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Sequence

import keras
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import Dataset
from pipeline.forecast.layers import Layer, Outputs, bytes_of, operations_of
from pipeline.forecast.slice_strategy import SliceStrategy
from pipeline.report.section import Finding
from pipeline.training.engine import measures, recomputation, rows, step
from pipeline.training.engine.precision import Precision
from pipeline.training.engine.replicas import adapt_to_replicas
from pipeline.training.experiment import model_code
from pipeline.training.experiment import optimizer as optimizer_lib
from pipeline.training.experiment.code import Code
from pipeline.training.experiment.config import Experiment
from pipeline.training.experiment.model import fitted_model, naming_layer
from pipeline.training.parity import subject as subject_lib
from pipeline.training.parity.subject import Subject

_SOME_STEPS = 1_000  # length of the schedule: no program depends on it
_UNSUPPORTED = re.compile(r"(\w+) \(No registered '(\w+)' OpKernel for XLA")
_LINE = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_LIBRARIES = ("/site-packages/", "/lib/python", "<frozen")
_ENGINE = "/pipeline/"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Weighed:
    """A model whose step can be lowered, with the sizes of what it keeps in memory, in bytes.

    Attributes:
      example: one example's inputs and targets.
      moved: what every step reads from memory or writes to it, whatever the batch: each weight that is
        trained, with what the optimizer keeps of it, once in and once out. Tables by rows do not count.
      flops: what a training step computes for one example; None where it cannot be counted.
      is_frozen: whether weights stay as they are, so that a step computes less than `flops`.
      again: what is computed again for one example, and so not kept.
      specs: a device's batch: names of inputs, then of targets, as `tf.TensorSpec`s of one example.
      replicas: devices among which a step is divided; each has a batch of its own.
      notes: lines about how the model was fitted to the data.
    """

    model: keras.Model
    weights: int
    optimizer: int
    averages: int
    example: int
    moved: int
    flops: float | None
    is_frozen: bool
    layers: tuple[Layer, ...]
    again: int
    micro_batches: int
    specs: tuple[dict[str, tf.TensorSpec], object]
    replicas: int
    notes: tuple[str, ...]
    _run: Callable
    _code: Code
    _outputs: Outputs
    _length: int  # rows of an example

    @property
    def kept(self) -> int:
        """What is in memory from the first step to the last."""
        return self.weights + self.optimizer + self.averages

    @property
    def again_with(self) -> tuple[str, int]:
        """The pattern for `config.train.remat` that would keep least, and how much more it would not keep for
        one example; empty and 0 where none helps.
        """
        pattern, most = self._outputs.best_pattern()
        less = most * self._length - self.again
        return (pattern, less) if less > 0 else ("", 0)

    @property
    def gradients(self) -> int:
        """One number for each weight that is trained."""
        return bytes_of(self.model.trainable_variables)

    def activations(self, batch: int) -> int:
        """The size of all outputs of the forward pass for the examples that are in memory at once, less what
        is computed again: an upper bound of what the backward pass keeps of them.
        """
        return self.layer_outputs(self.at_once(batch)) - self.again * self.at_once(batch)

    def layer_outputs(self, examples: int) -> int:
        return examples * sum(each.outputs for each in self.layers)

    def at_once(self, batch: int) -> int:
        """How many examples of a batch are in memory at once."""
        return -(-batch // self.micro_batches)

    def program(self, batch: int) -> "Program":
        """A device's program of a step over its `batch` examples; raises InputError where it has none."""
        inputs, targets = tf.nest.map_structure(lambda each: _of_batch(each, batch), self.specs)
        flat = tf.nest.flatten((inputs, targets))

        @tf.function(jit_compile=True, autograph=False)
        def whole(*given: tf.Tensor) -> tf.Tensor:
            return self._run(*tf.nest.pack_sequence_as((inputs, targets), given))

        try:
            with naming_layer(self._code):
                operations = list(operations_of(whole.get_concrete_function(*flat).graph))
        except InputError:
            raise
        except Exception as error:  # a model's own code may raise anything
            raise _not_lowered(error) from error
        _require_compilable(operations)
        try:
            content = whole.experimental_get_compiler_ir(*flat)(stage="hlo_serialized")
        except Exception as error:  # TensorFlow raises errors of several kinds for what XLA cannot do
            raise _endless(operations, error) or _not_lowered(error, _unsized(operations)) from error
        return Program(content=content, findings=tuple(_dynamic(operations)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """A serialised HloModuleProto, and findings on operations that cost more than it seems."""

    content: bytes
    findings: tuple[Finding, ...]


def weigh(experiment: Experiment, dataset: Dataset, *, precision: Precision, replicas: int = 1) -> Weighed:
    """Builds the model and the step of an experiment, as a run would; nothing is trained.

    Args:
      replicas: devices among which a step is divided. If there are several, the program of one of them can
        be compiled, with its sums over all, but not run.

    Raises:
      InputError: the experiment does not fit the dataset, its first batch cannot be read, or the model
        cannot be run.
    """
    subject = subject_lib.of_experiment(experiment, dataset)
    specs = _specs(subject)
    keras.utils.clear_session(free_memory=False)
    strategy = SliceStrategy(replicas) if replicas > 1 else tf.distribute.get_strategy()
    with strategy.scope():
        fitted = fitted_model(
            experiment.model,
            schema=subject.schema,
            inputs=subject.stream.preprocess.inputs,
            precision=precision,
            scale=subject.learned,
        )
        model = fitted.model
        model.optimizer = optimizer_lib.build(
            experiment.optimizer, model.trainable_variables, total_steps=_SOME_STEPS, precision=precision
        )
        averages = step.build_averages(experiment.optimizer.ema, model)
    adapt_to_replicas(model, replicas=replicas)
    run = step.train_step(
        model,
        model.optimizer,
        task=subject.objective,
        global_batch=experiment.data.global_batch,
        micro_batches=experiment.train.micro_batches,
        averages=averages,
        skips=experiment.train.on_bad_step == "skip",
        spread=subject.objective.unit(subject.learned.spread),
        recomputing=recomputation.of(model, experiment.train.remat),
    )
    code, group = model_code.locate(experiment.model), subject.schema.group
    length = group.length if group else 1
    with naming_layer(code):  # a layer that says its shapes runs here for the first time
        forward, outputs = measures.forward_flops(model), Outputs(model)
    return Weighed(
        model=model,
        weights=bytes_of(model.variables),
        optimizer=bytes_of(model.optimizer.variables),
        averages=bytes_of(averages.variables) if averages else 0,
        example=sum(math.prod(each.shape[1:]) * each.dtype.size for each in tf.nest.flatten(specs)),
        moved=_moved(model, averages),
        is_frozen=bool(experiment.model.frozen)
        or not all(each.trainable for each in model._flatten_layers()),
        flops=None if forward is None else float(measures.TRAINING * forward * length),
        layers=tuple(dataclasses.replace(each, outputs=each.outputs * length) for each in outputs.by_layer()),
        again=outputs.not_kept(experiment.train.remat) * length,
        micro_batches=experiment.train.micro_batches,
        specs=specs,
        replicas=replicas,
        notes=fitted.notes,
        _code=code,
        _outputs=outputs,
        _length=length,
        _run=run if replicas == 1 else lambda *given: strategy.run(run, args=given),
    )


def _moved(model: keras.Model, averages: step.Averages | None) -> int:
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    dense = [each for each in model.trainable_variables if not rows.is_by_rows(optimizer, each)]
    kept = bytes_of(dense)
    if len(dense) == len(model.trainable_variables):  # else nobody says which state is a table's
        kept += bytes_of(model.optimizer.variables) + (bytes_of(averages.variables) if averages else 0)
    return 2 * kept


def _specs(subject: Subject) -> tuple[dict[str, tf.TensorSpec], object]:
    (batch,) = subject.batches(1)
    return tf.nest.map_structure(lambda each: tf.TensorSpec((None, *each.shape[1:]), each.dtype), batch)


def _of_batch(spec: tf.TensorSpec, batch: int) -> tf.TensorSpec:
    return tf.TensorSpec((batch, *spec.shape[1:]), spec.dtype)


# --- Operations of the graph that a compiler refuses late, or takes at a cost; each with the line it is from.


_PRODUCTS = ("MatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum")


def _require_compilable(operations: Sequence[tf.Operation]) -> None:
    for operation in operations:
        if operation.type in _PRODUCTS and operation.outputs[0].dtype == tf.int64:
            raise InputError(
                "the training step",
                received=f"a product of int64 matrices{_where(operation)}",
                expected="products of floating-point numbers, or of int32: a TPU has no 64 bits",
                action="Cast both sides to float32 or int32.",
            )


def _dynamic(operations: Sequence[tf.Operation]) -> Iterator[Finding]:
    for what in _unsized(operations):
        yield Finding(
            text=f"The size of a result depends on data: {what}. A TPU computes the largest one each time.",
            advice=_SIZED,
        )


_SIZED = "Multiply by a mask, or use keras.ops.where with three arguments."


def _unsized(operations: Sequence[tf.Operation]) -> list[str]:
    """Each operation of the forward pass whose result has an unknown size, while its inputs have known ones.

    The user's line stands with it. Operations without such a line follow from others: they count only where
    there are no others.
    """
    forward = (each for each in operations if "gradient_tape/" not in each.name)
    found = [(each.type, _where(each)) for each in forward if _makes_unknown(each)]
    named = dict.fromkeys(f"{kind}{line}" for kind, line in found if line)
    return [*named] or [kind for kind, _ in found[:1]]


def _makes_unknown(operation: tf.Operation) -> bool:
    numbers = [each for each in operation.outputs if each.dtype not in (tf.resource, tf.variant)]
    return not all(each.shape.is_fully_defined() for each in numbers) and all(
        each.shape.is_fully_defined() for each in operation.inputs
    )


def _where(operation: tf.Operation) -> str:
    """The last line of code that is neither a library's nor the engine's; empty if there is none."""
    frames = [
        frame
        for frame in operation.traceback
        if not any(part in frame.filename for part in _LIBRARIES) and _ENGINE not in frame.filename
    ]
    return f", of {frames[-1].filename}, line {frames[-1].lineno}, in {frames[-1].name}" if frames else ""


def _endless(operations: Sequence[tf.Operation], error: Exception) -> InputError | None:
    """The error of a loop whose gradient XLA refuses, with the loop's line; None for other errors."""
    loops = [each for each in operations if each.type in measures.LOOPS and _where(each)]
    if "maximum_iteration" not in str(error) or not loops:
        return None
    return InputError(
        "the training step",
        received=f"a loop that nothing limits{_where(loops[0])}",
        expected="loops whose number of rounds has a limit, so that XLA can keep what their gradient needs",
        action="Give it maximum_iterations.",
    )


def _not_lowered(error: Exception, unsized: Sequence[str] = ()) -> InputError:
    """Names the operation that has no program, and the line of the user's code that it came from.

    Args:
      unsized: operations whose results have a size that depends on data.
    """
    text = str(error)
    operations = list(dict.fromkeys(name for _, name in _UNSUPPORTED.findall(text)))
    if unsized and not operations:
        return InputError(
            "the training step",
            received=f"results whose size depends on data, first of {unsized[0]}",
            expected="sizes that are known before a step runs",
            action=_SIZED,
        )
    lines = [
        f"{file}, line {line}, in {function}"
        for file, line, function in _LINE.findall(text)
        if not any(part in file for part in _LIBRARIES)
    ]
    own = [line for line in lines if _ENGINE not in line]
    what = f"the operation {', '.join(operations)}" if operations else " ".join(text.split())[:300]
    return InputError(
        "the training step",
        received=f"{what}{f', of {(own or lines)[-1]}' if own or lines else ''}",
        expected="operations that XLA compiles: no strings, no images in files, no Python functions",
        action="Move it out of the model, into the preprocessing, or write it with keras.ops.",
    )
