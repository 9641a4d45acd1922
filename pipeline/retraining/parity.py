"""The parity gate: one export against its run, on rows of the holdout."""

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.dataset import records
from pipeline.data.dataset import statistics as statistics_lib
from pipeline.data.dataset.manifest import TRAIN
from pipeline.data.dataset.records import MODEL_INPUTS, RAW, SERVING_DEFAULT
from pipeline.data.dataset.selection import Selection
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.schema.feature_types import LABEL_TASKS
from pipeline.data.schema.schema import Schema
from pipeline.exporting import signatures as signatures_lib
from pipeline.exporting.export import Trained, trained
from pipeline.exporting.requests import tolerance
from pipeline.exporting.signatures import raw_names
from pipeline.retraining.parity_result import Agreement, FeatureSkew, Flips, ParityLimits, ParityResult, Skew
from pipeline.retraining.parity_rows import AsTrained, RawCells, Sample, asked, first_rows
from pipeline.training.engine.precision import Precision
from pipeline.training.experiment.model import build_model, learned_scale
from pipeline.training.experiment.restore import RestoredRun

_DEFAULT = ParityLimits()


def parity(
    run: RestoredRun, directory: pathlib.Path, holdout: Selection, *, limits: ParityLimits = _DEFAULT
) -> ParityResult:
    """Whether the export at `directory` decides as the run does.

    Three comparisons: the export with the graph in memory, bit for bit; the run's precision with float32, by
    decisions; and training's input with serving's, row by row and feature by feature.

    Raises:
      InputError: the export is not whole, or a record of the holdout is damaged.
    """
    records.open_export(directory)
    sample = first_rows(holdout, limits.rows)
    subject, model = trained(run), tf.saved_model.load(str(directory))
    agreement = export_agreement(subject, model, sample)
    found = flips(run, sample)
    skewed = skew(subject, model, sample)
    return ParityResult(
        reasons=[*reasons(agreement, found, skewed, limits)],
        limits=limits,
        exported=agreement,
        flips=found,
        skew=skewed,
    )


def reasons(agreement: Agreement, found: Flips | None, skewed: Skew, limits: ParityLimits) -> Iterator[str]:
    """A sentence for each comparison that failed."""
    if agreement.differing:
        yield (
            f"the export predicts otherwise than the graph in memory: {agreement.differing:,} of "
            f"{agreement.rows:,} rows, by up to {agreement.worst:.3g}; every bit must be the same"
        )
    if found:
        yield from _of_precision(found, limits)
    yield from _of_skew(skewed)


def _of_precision(found: Flips, limits: ParityLimits) -> Iterator[str]:
    if found.rate > limits.flipped:
        yield (
            f"{found.policy} decides otherwise than float32 on {found.flipped:,} of {found.rows:,} rows, "
            f"{found.rate:.2%}; at most {limits.flipped:.2%} is allowed"
        )
    if not found.moved <= limits.moved:
        yield (
            f"{found.policy} is {found.moved:.3g} from float32 (root of the mean square); at most "
            f"{limits.moved:.3g} is allowed"
        )


def _of_skew(skewed: Skew) -> Iterator[str]:
    for each in skewed.features:
        yield (
            f"feature '{each.feature}' reaches the model as another number in serving than in training, in "
            f"{each.rows:,} of {skewed.rows:,} rows: {each.example}"
        )
    if skewed.differing:
        yield (
            f"serving's raw columns give other predictions than training's input: {skewed.differing:,} of "
            f"{skewed.rows:,} rows, by up to {skewed.worst:.3g}"
        )


# --- What the precision of training decides otherwise than float32 would, with the same weights.


FLOAT32 = "float32"


def flips(run: RestoredRun, sample: Sample) -> Flips | None:
    """None where the run itself computes in float32."""
    policy = run.record.precision["policy"]
    if policy == FLOAT32:
        return None
    models = [run.model, float32_twin(run)]
    predict = AsTrained(run.preprocess, models, run.schema.label, schema=sample.schema)
    pairs = zip(*(predict(some)[1] for some in sample.batches()), strict=True)
    rounded, exact = (np.concatenate(each).astype(np.float64) for each in pairs)
    return compared(rounded, exact, policy=policy)


def compared(rounded: np.ndarray, exact: np.ndarray, *, policy: str) -> Flips:
    """Of predictions, probabilities [n, classes] or values [n]. What is not finite has moved without end."""
    has_classes = rounded.ndim > 1
    flipped = int(np.sum(rounded.argmax(axis=1) != exact.argmax(axis=1))) if has_classes else 0
    unit = 1.0 if has_classes else float(np.std(exact)) or 1.0
    with np.errstate(all="ignore"):
        moved = float(np.sqrt(np.mean((rounded - exact) ** 2))) / unit
    return Flips(
        policy=policy,
        rows=len(exact),
        flipped=flipped,
        rate=flipped / len(exact),
        moved=moved if np.isfinite(moved) else np.inf,
    )


def float32_twin(run: RestoredRun) -> keras.Model:
    """A model with the run's weights that computes in float32."""
    statistics = statistics_lib.read(run.workdir.statistics)[TRAIN]
    twin = build_model(
        run.experiment.model,
        schema=run.schema,
        inputs=run.preprocess.inputs,
        precision=Precision(policy=FLOAT32, reason="to compare with"),
        scale=learned_scale(run.experiment.loss, run.schema.label, statistics),
    )
    twin.set_weights(run.model.get_weights())
    return twin


# --- The same rows through training's input and through the export's signature for raw columns.


def skew(trained: Trained, model: tf.Module, sample: Sample) -> Skew:
    """Of the loaded export `model`. What training makes of a row is computed from the run alone."""
    label = trained.schema.label
    as_trained = AsTrained(trained.preprocess, [trained.model], label, schema=sample.schema)
    blame = Blame(trained.preprocess, trained.schema)
    output, allowed = LABEL_TASKS[label.task].output, tolerance(trained.model)
    differing, worst = 0, 0.0
    raw, from_files = RawCells(sample.dataset), 0
    for some in sample.batches():
        cells = raw.of(some.places)
        from_files += sum(each is not None for each in cells)
        columns = asked(some, cells, trained.schema)
        tensors = {name: tf.constant(values) for name, values in columns.items()}
        inputs, (expected,) = as_trained(some)
        found = model.signatures[RAW](**tensors)[output].numpy()
        errors = np.abs(found.astype(np.float64) - expected).reshape(len(expected), -1).max(axis=1)
        differing += int(np.sum(~(errors <= allowed * np.abs(expected).max())))
        worst = max(worst, float(errors.max(initial=0.0)))
        blame.compare(inputs, _arrays(model.signatures[MODEL_INPUTS](**tensors)), columns)
    return Skew(
        rows=len(sample), from_files=from_files, differing=differing, worst=worst, features=blame.features()
    )


def _arrays(tensors: Mapping[str, tf.Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}


# --- The export against the graph in memory, bit for bit.


def export_agreement(trained: Trained, model: tf.Module, sample: Sample) -> Agreement:
    """Of the loaded export's `serving_default` with a function of the trained model, compiled to a graph.

    Eagerly computed, bfloat16 differs from either by 1e-3: a graph rounds between fewer operations.
    """
    graph = signatures_lib.signatures(trained.model, trained.preprocess, trained.schema)[SERVING_DEFAULT]
    served = model.signatures[SERVING_DEFAULT]
    output = LABEL_TASKS[trained.schema.label.task].output
    differing, worst = 0, 0.0
    for some in sample.batches():
        examples = some.examples()
        found, expected = served(examples=examples)[output].numpy(), graph(examples)[output].numpy()
        differing += rows_of_other_bits(found, expected)
        worst = max(worst, float(np.max(np.abs(found.astype(np.float64) - expected), initial=0.0)))
    return Agreement(rows=len(sample), differing=differing, worst=worst)


def rows_of_other_bits(found: np.ndarray, expected: np.ndarray) -> int:
    """Rows in which one bit or more differs; all, where dtype or shape do."""
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        return len(expected)
    if not len(expected):
        return 0
    one, other = (
        np.ascontiguousarray(each).view(np.uint8).reshape(len(each), -1) for each in (found, expected)
    )
    return int(np.sum((one != other).any(axis=1)))


# --- Which features reach the model as other numbers in serving than in training.


Arrays = Mapping[str, np.ndarray]

# Of a standardised number: it is computed in another graph, and may have been read from text.
_TOLERANCE = 1e-6
_LONGEST = 40  # characters of a value


@dataclasses.dataclass
class _Found:
    rows: int = 0
    example: str = ""


class Blame:
    """Compares the inputs of a model, batch by batch, and counts by feature the rows that differ."""

    def __init__(self, preprocess: Preprocess, schema: Schema) -> None:
        self._preprocess = preprocess
        self._names = raw_names(schema)
        self._found: dict[str, _Found] = {}

    def compare(self, training: Arrays, serving: Arrays, asked: Arrays) -> None:
        """Inputs of one batch, by their names in ModelInputs, [n, …] each; and the request's columns."""
        for feature in self._names:
            differs = np.zeros(len(next(iter(asked.values()))), bool)
            example = ""
            for name, at in self._columns(feature):
                pair = _column(training[name], at), _column(serving[self._served(name)], at)
                rows = _differ(*pair)
                if rows.any() and not example:
                    row = int(rows.argmax())
                    value = asked[self._names[feature]][row]
                    kind = "id " if name == "categories" else ""
                    example = _example(value, *(each[row] for each in pair), kind=kind)
                differs |= rows
            self._add(feature, int(differs.sum()), example)

    def features(self) -> list[FeatureSkew]:
        """Those that differ, the most rows first."""
        found = [
            FeatureSkew(feature=name, rows=each.rows, example=each.example)
            for name, each in self._found.items()
        ]
        return sorted(found, key=lambda each: -each.rows)

    def _columns(self, feature: str) -> Iterator[tuple[str, int | None]]:
        """Where a feature stands among the model's inputs: a tensor's name, and its column; None: all."""
        for name, columns in self._preprocess.columns.items():
            yield from ((name, at) for at, column in enumerate(columns) if column == feature)
        if feature in self._preprocess.inputs.sequences:
            yield feature, None
        if self._preprocess.image and self._preprocess.image.name == feature:
            yield "image", None

    def _served(self, name: str) -> str:
        """The name of an input in the export, which renames what TensorFlow cannot take."""
        return self._names[name] if name in self._preprocess.inputs.sequences else name

    def _add(self, feature: str, rows: int, example: str) -> None:
        if rows:
            found = self._found.setdefault(feature, _Found(example=example))
            found.rows += rows


def _column(values: np.ndarray, at: int | None) -> np.ndarray:
    return values if at is None else values[:, at]


def _differ(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Bool [n]: the rows in which the model gets something else."""
    if one.shape != other.shape:
        return np.ones(len(one), bool)
    if not np.issubdtype(one.dtype, np.floating):
        different = one != other
    else:
        exact, found = one.astype(np.float64), other.astype(np.float64)
        different = ~(np.abs(exact - found) <= _TOLERANCE * np.maximum(1.0, np.abs(exact)))
    return different.reshape(len(one), -1).any(axis=1)


def _example(value: object, one: np.ndarray, other: np.ndarray, *, kind: str) -> str:
    return f"{_told(value)} is {kind}{_told(one)} in training, {kind}{_told(other)} in serving"


def _told(value: object) -> str:
    """A value, short: text in quotes, a number, or the size of an array."""
    if isinstance(value, bytes):
        text = value.decode("utf-8", "backslashreplace")
        return f"'{text[:_LONGEST]}{'…' * (len(text) > _LONGEST)}'"
    array = np.asarray(value)
    return f"{array.item():g}" if array.ndim == 0 else f"{array.dtype}{list(array.shape)}"
