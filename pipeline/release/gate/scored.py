"""What the gate judges: the labels of one holdout, and what each model predicts of them."""

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np

from pipeline.data.errors import InputError
from pipeline.release.gate import checked_arrays
from pipeline.release.gate.metrics import METRICS

CHALLENGER, CHAMPION, ANCHOR = MODELS = ("challenger", "champion", "anchor")
REGRESSION = "regression"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """Examples of one holdout, scored by one to three models. All arrays have n rows, in the same order.

    Attributes:
      task: a name of LABEL_TASKS.
      labels: [n], class indices or values.
      predictions: of "challenger", and of "champion" and "anchor" where there are such, as exports give them:
        probabilities [n, classes], or of the positive class [n]; of a regression values [n] or [n, 1].
      weights: [n], from 0 on; None: all rows count the same.
      clusters: [n], equal where rows belong together, of any type that can be sorted; None: rows are
        independent.
      slices: feature → its value in each row, text [n].
      prior: what predicts without features, as training has it: the rate of the positive class, the rates
        of all classes [classes], or the mean of the values; None: that of the labels.

    Raises:
      InputError: a name, a length or a number cannot be right.
    """

    task: str
    labels: np.ndarray
    predictions: Mapping[str, np.ndarray]
    weights: np.ndarray | None = None
    clusters: np.ndarray | None = None
    slices: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    prior: float | np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.task not in METRICS:
            raise _error(
                "task", repr(self.task), f"one of {', '.join(METRICS)}", "Judge models of such a task."
            )
        self._check_models()
        checked_arrays.rows("labels", self.labels)
        for name, array in self._beside_labels():
            checked_arrays.as_many_rows(name, array, len(self.labels))
        self._check_numbers()

    @property
    def rows(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> int:
        """Of the labels; 0 of a regression."""
        if self.task == REGRESSION:
            return 0
        predictions = self.predictions[CHALLENGER]
        return 2 if np.ndim(predictions) == 1 else np.shape(predictions)[1]

    def _beside_labels(self) -> Iterator[tuple[str, np.ndarray]]:
        yield from ((f"predictions of the {model}", array) for model, array in self.predictions.items())
        yield from ((f"slices of '{feature}'", array) for feature, array in self.slices.items())
        yield from (
            (name, getattr(self, name)) for name in ("weights", "clusters") if getattr(self, name) is not None
        )

    def _check_models(self) -> None:
        names = list(self.predictions)
        if CHALLENGER not in names or set(names) - set(MODELS):
            received = ", ".join(map(str, names)) or "none"
            expected = f"{CHALLENGER}, and {CHAMPION} and {ANCHOR} where there are such"
            raise _error("predictions", received, expected, "Name the models so.")

    def _check_numbers(self) -> None:
        for model, array in self.predictions.items():
            name = f"predictions of the {model}"
            if self.task == REGRESSION:
                checked_arrays.values(name, array)
            else:
                checked_arrays.probabilities(name, array, classes=self.classes, binary=self.task == "binary")
        if self.task == REGRESSION:
            checked_arrays.values("labels", self.labels)
        else:
            checked_arrays.classes("labels", self.labels, self.classes)
        checked_arrays.prior(self.prior, self.classes)
        if self.weights is not None:
            checked_arrays.weights(self.weights)
        if self.clusters is not None:
            checked_arrays.clusters(self.clusters)
        for feature, texts in self.slices.items():
            checked_arrays.texts(f"slices of '{feature}'", texts)


def _error(name: str, received: str, expected: str, action: str) -> InputError:
    return InputError(f"{name} that the gate gets", received=received, expected=expected, action=action)
