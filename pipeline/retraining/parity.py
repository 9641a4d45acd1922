"""The parity gate: compares an export with its run, on rows of the holdout."""

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping

import keras
import numpy as np
import tensorflow as tf

from pipeline.data.dataset import records
from pipeline.data.dataset.records import MODEL_INPUTS, RAW, SERVING_DEFAULT
from pipeline.data.dataset.selection import Selection
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.schema.feature_types import LABEL_TASKS
from pipeline.data.schema.schema import Schema
from pipeline.exporting import signatures as signatures_lib
from pipeline.exporting.export import Trained, trained
from pipeline.exporting.raw_inputs import raw_names
from pipeline.exporting.recording import tolerance
from pipeline.exporting.requests import numpy_arrays
from pipeline.gate.scores import NEXT_TOKEN, RANKING, RETRIEVAL
from pipeline.report.comparison import Agreement, differing_rows
from pipeline.retraining.parity_result import FeatureSkew, Flips, ParityLimits, ParityResult, Skew
from pipeline.retraining.parity_rows import AsTrained, RawCells, Sample, first_rows, request_columns
from pipeline.training.engine.precision import FLOAT32
from pipeline.training.experiment.restore import RestoredRun

_DEFAULT = ParityLimits()


def parity(
    run: RestoredRun, directory: pathlib.Path, holdout: Selection, *, limits: ParityLimits = _DEFAULT
) -> ParityResult:
    """Checks that the export at `directory` makes the same decisions as the run.

    It makes three comparisons: the export with the graph in memory, bit for bit; the run's precision with
    float32, by decisions; and training's input with serving's, by row and feature.

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
    """Yields a sentence for each comparison that failed."""
    if agreement.differing:
        yield (
            f"the export predicts otherwise than the graph in memory: {agreement.differing:,} of "
            f"{agreement.rows:,} rows, by up to {agreement.worst:.3g}; every bit must be the same"
        )
    if found:
        yield from _precision_reasons(found, limits)
    yield from _skew_reasons(skewed)


def _precision_reasons(found: Flips, limits: ParityLimits) -> Iterator[str]:
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


def _skew_reasons(skewed: Skew) -> Iterator[str]:
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


# --- Precision: decisions that would be different in float32, with the same weights.


def flips(run: RestoredRun, sample: Sample) -> Flips | None:
    """Compares the run's precision with float32; returns None where the run computes in float32."""
    policy = run.record.precision["policy"]
    if policy == FLOAT32.policy:
        return None
    models = [run.model, float32_twin(run)]
    label = run.schema.of_rows.label
    predict = AsTrained(run.preprocess, models, label, schema=sample.schema)
    pairs = zip(*(predict(some)[1] for some in sample.batches()), strict=True)
    rounded, exact = (np.concatenate(each).astype(np.float64) for each in pairs)
    return compare_precisions(rounded, exact, policy=policy, task=label.task)


def compare_precisions(rounded: np.ndarray, exact: np.ndarray, *, policy: str, task: str = "") -> Flips:
    """Compares predictions: probabilities [n, classes] or values [n] or, of several targets, [n, targets].

    `moved` is infinite beyond numbers. A multilabel is decided otherwise where one of its classes is. Scores
    of items and rows and log-probabilities of tokens are values in one unit: among very many items, some
    scores are as good as equal, and it says little which of them comes first.
    """
    has_values = task in (RETRIEVAL, RANKING, NEXT_TOKEN)
    has_classes = rounded.ndim > 1 and task != "multitarget" and not has_values
    spread = 1.0 if has_classes else np.std(exact, axis=None if has_values else 0)
    with np.errstate(all="ignore"):
        distances = (rounded - exact) / np.where(spread == 0, 1.0, spread)
        moved = float(np.sqrt(np.mean(distances**2)))
    flipped = 0
    if has_classes and task == "multilabel":
        flipped = int(np.sum(((rounded > 0.5) != (exact > 0.5)).any(axis=1)))
    elif has_classes:
        flipped = int(np.sum(rounded.argmax(axis=1) != exact.argmax(axis=1)))
    return Flips(
        policy=policy,
        rows=len(exact),
        flipped=flipped,
        rate=flipped / len(exact),
        moved=moved if np.isfinite(moved) else np.inf,
    )


def float32_twin(run: RestoredRun) -> keras.Model:
    """Builds a model with the run's weights that computes in float32."""
    twin = run.new_model(FLOAT32)
    twin.set_weights(run.model.get_weights())
    return twin


# --- Skew: the same rows through training's input and through the export's signature for raw columns.


def skew(trained: Trained, model: tf.Module, sample: Sample) -> Skew:
    """Compares a model's inputs as training computes them with those inside the loaded export `model`."""
    label = trained.schema.label
    as_trained = AsTrained(trained.preprocess, [trained.model], label, schema=sample.schema)
    attribution = Attribution(trained.preprocess, trained.schema)
    output, allowed = LABEL_TASKS[label.task].output, tolerance(trained.model)
    predictions = Agreement()
    raw, from_files = RawCells(sample.dataset), 0
    for some in sample.batches():
        cells = raw.of(some.places)
        from_files += sum(each is not None for each in cells)
        columns = request_columns(some, cells, trained.schema)
        tensors = {name: tf.constant(values) for name, values in columns.items()}
        inputs, (expected,) = as_trained(some)
        found = model.signatures[RAW](**tensors)[output].numpy()
        predictions.add(found, expected, allowed=allowed * np.abs(expected).max())
        served = numpy_arrays(model.signatures[MODEL_INPUTS](**tensors))
        attribution.compare(inputs, served, columns)
    features = attribution.features()
    return Skew(**vars(predictions), from_files=from_files, features=features)


# --- Agreement: the export against the graph in memory, bit for bit.


def export_agreement(trained: Trained, model: tf.Module, sample: Sample) -> Agreement:
    """Compares the loaded export's `serving_default` with a graph of the trained model.

    Without a graph, bfloat16 differs from both by 1e-3, because a graph rounds less often.
    """
    graph = signatures_lib.signatures(trained.model, trained.preprocess, trained.schema)[SERVING_DEFAULT]
    served = model.signatures[SERVING_DEFAULT]
    output = LABEL_TASKS[trained.schema.label.task].output
    agreement = Agreement()
    for some in sample.batches():
        examples = some.examples()
        agreement.add(served(examples=examples)[output].numpy(), graph(examples)[output].numpy())
    return agreement


# --- Attribution: the features that reach the model as different numbers in serving and in training.


Arrays = Mapping[str, np.ndarray]

# The tolerance for standardised numbers, which come from another graph, and perhaps from text.
_TOLERANCE = 1e-6
_LONGEST = 40  # characters of a value that are shown


@dataclasses.dataclass
class _Found:
    rows: int = 0
    example: str = ""


class Attribution:
    """Compares the inputs of a model, batch by batch, and counts the differing rows by feature."""

    def __init__(self, preprocess: Preprocess, schema: Schema) -> None:
        self._preprocess = preprocess
        self._names = raw_names(schema)
        self._found: dict[str, _Found] = {}

    def compare(self, training: Arrays, serving: Arrays, request: Arrays) -> None:
        """Compares one batch: inputs by their names in ModelInputs, [n, …] each, for a request."""
        for feature in self._names:
            differs = np.zeros(len(next(iter(request.values()))), bool)
            example = ""
            for name, at in self._columns(feature):
                pair = _column(training[name], at), _column(serving[self._served(name)], at)
                rows = _differ(*pair)
                if rows.any() and not example:
                    row = int(rows.argmax())
                    value = request[self._names[feature]][row]
                    kind = "id " if name == "categories" else ""
                    example = _example(value, *(each[row] for each in pair), kind=kind)
                differs |= rows
            self._add(feature, int(differs.sum()), example)

    def features(self) -> list[FeatureSkew]:
        """Returns the features that differ, the most rows first."""
        found = [
            FeatureSkew(feature=name, rows=each.rows, example=each.example)
            for name, each in self._found.items()
        ]
        return sorted(found, key=lambda each: -each.rows)

    def _columns(self, feature: str) -> Iterator[tuple[str, int | None]]:
        """Yields the places of a feature among the model's inputs: the name of a tensor, and a column; None:
        all columns.
        """
        for name, columns in self._preprocess.columns.items():
            yield from ((name, at) for at, column in enumerate(columns) if column == feature)
        if feature in self._preprocess.inputs.sequences:
            yield feature, None
        if self._preprocess.image and self._preprocess.image.name == feature:
            yield "image", None

    def _served(self, name: str) -> str:
        """Returns the name of an input in the export, which renames inputs whose names TensorFlow cannot
        accept.
        """
        return self._names[name] if name in self._preprocess.inputs.sequences else name

    def _add(self, feature: str, rows: int, example: str) -> None:
        if rows:
            found = self._found.setdefault(feature, _Found(example=example))
            found.rows += rows


def _column(values: np.ndarray, at: int | None) -> np.ndarray:
    return values if at is None else values[:, at]


def _differ(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Returns True where the model gets different values: bool [n]."""
    is_number = np.issubdtype(one.dtype, np.floating)
    allowed = _TOLERANCE * np.maximum(1.0, np.abs(one.astype(np.float64))) if is_number else 0.0
    return differing_rows(other, one, allowed=allowed)


def _example(value: object, one: np.ndarray, other: np.ndarray, *, kind: str) -> str:
    return f"{_format(value)} is {kind}{_format(one)} in training, {kind}{_format(other)} in serving"


def _format(value: object) -> str:
    """Formats a value: text in quotes, a number, or the size of an array."""
    if isinstance(value, bytes):
        text = value.decode("utf-8", "backslashreplace")
        return f"'{text[:_LONGEST]}{'…' * (len(text) > _LONGEST)}'"
    array = np.asarray(value)
    return f"{array.item():g}" if array.ndim == 0 else f"{array.dtype}{list(array.shape)}"
