"""The inputs of the gate: the labels of one holdout and the predictions of each model."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from pipeline.base.errors import InputError
from pipeline.gate import priors
from pipeline.gate.copies import find_copies
from pipeline.gate.metrics import METRICS, Metric
from pipeline.gate.statistics.estimates import Sample

CHALLENGER, CHAMPION, ANCHOR = MODELS = ("challenger", "champion", "anchor")
REGRESSION = "regression"
MULTILABEL, MULTITARGET = SEVERAL = ("multilabel", "multitarget")  # several answers an example
RETRIEVAL, RANKING, NEXT_TOKEN = "retrieval", "ranking", "next_token"
_ONE_OF_CLASSES = ("binary", "multiclass")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Scored:
    """Examples of one holdout, scored by one to three models. All arrays have n rows, in the same order.

    Attributes:
      task: a name of LABEL_TASKS.
      labels: [n], class indices or values. A multilabel has 0 or 1 for each class, [n, classes]; several
        targets have [n, targets]. Retrieval has the indices of the chosen items; ranking the relevance of the
        rows of each group [n, length], below 0 for what fills it up; next_token has tokens [n, length], below
        0 where none is predicted.
      predictions: by model ("challenger"; "champion" and "anchor" where there are such), as exports give
        them: probabilities [n, classes], or those of the positive class [n]; for a regression values [n] or
        [n, 1]; [n, answers] if an example has several. Retrieval has [n, 3]: the log-probability of the
        chosen item, and how many others have a higher score, and the same; ranking a score of each row
        [n, length]; next_token [n, length, 2], the log-probabilities of each token and of the most probable
        one. Champion and anchor may be NaN or impossible in a row; the challenger may be so only where the
        champion is.
      weights: [n], from 0 on; None: all rows count the same, and so do all predicted tokens.
      clusters: [n], equal where rows belong together, of any type that can be sorted; None: rows are
        independent.
      slices: feature → its value in each row, text [n].
      prior: the prediction without features, from the training labels: the rate of the positive class, the
        rates of all classes or items, or the mean of the values, or of those of each target; None: from the
        labels here. Ranking's prior is a random order.
      rates: how often each class occurs in training, in `prior`'s form; None: as `prior` says.
      class_names: for messages; empty: their numbers.
      content: [n], integers that are equal where the stored rows are; None: rows of the same predictions and
        label are taken for copies.

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
    rates: float | np.ndarray | None = None
    class_names: Sequence[str] = ()
    content: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.task not in METRICS:
            raise _error(
                "task", repr(self.task), f"one of {', '.join(METRICS)}", "Evaluate models of such a task."
            )
        self._check_models()
        self._check_labels()
        for name, array in self._beside_labels():
            as_many_rows(name, array, len(self.labels))
        self._check_numbers()

    @property
    def rows(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> int:
        """The number of classes if each example has one class, and a probability of each; else 0."""
        if self.task not in _ONE_OF_CLASSES:
            return 0
        predictions = self.predictions[CHALLENGER]
        return 2 if np.ndim(predictions) == 1 else np.shape(predictions)[1]

    @property
    def items(self) -> int:
        """The number of items to choose from. Without names it follows from the largest label."""
        return len(self.class_names) or int(np.max(self.labels)) + 1

    def has_number(self, model: str) -> np.ndarray:
        """Returns for which rows the model gives a valid prediction, bool [n]."""
        wrong = np.zeros(self.rows, bool)
        for found, _ in self._faults(model):
            wrong |= found
        return ~wrong

    def take(self, rows: np.ndarray, *, without: str = "") -> "Scored":
        """Returns some rows, which are indices or bool [n]; leaves out the model `without`, if it is
        named.
        """
        kept = {name: getattr(self, name) for name in ("labels", "weights", "clusters", "content")}
        return dataclasses.replace(
            self,
            predictions={
                model: np.asarray(made)[rows] for model, made in self.predictions.items() if model != without
            },
            slices={feature: np.asarray(texts)[rows] for feature, texts in self.slices.items()},
            **{name: None if array is None else np.asarray(array)[rows] for name, array in kept.items()},
        )

    def _faults(self, model: str) -> Iterator[tuple[np.ndarray, str]]:
        """Yields which rows of a model's predictions are wrong, bool [n], and what is expected of each."""
        name, array = f"predictions of the {model}", self.predictions[model]
        if self.task == REGRESSION:
            return faults_of_values(name, array)
        if self.task in SEVERAL:
            most = 1 if self.task == MULTILABEL else None
            return faults_of_several(name, array, np.shape(self.labels)[1], most=most)
        if self.task == RETRIEVAL:
            return _faults_of_ranks(name, array)
        if self.task == RANKING:
            return faults_of_several(name, array, np.shape(self.labels)[1], most=None)
        if self.task == NEXT_TOKEN:
            return _faults_of_tokens(name, array, np.shape(self.labels)[1])
        return faults_of_probabilities(name, array, classes=self.classes, binary=self.task == "binary")

    def _beside_labels(self) -> Iterator[tuple[str, np.ndarray]]:
        yield from ((f"predictions of the {model}", array) for model, array in self.predictions.items())
        yield from ((f"slices of '{feature}'", array) for feature, array in self.slices.items())
        yield from (
            (name, getattr(self, name))
            for name in ("weights", "clusters", "content")
            if getattr(self, name) is not None
        )

    def _check_models(self) -> None:
        names = list(self.predictions)
        if CHALLENGER not in names or set(names) - set(MODELS):
            received = ", ".join(map(str, names)) or "none"
            expected = f"{CHALLENGER}, and {CHAMPION} and {ANCHOR} where there are such"
            raise _error("predictions", received, expected, "Name the models so.")

    def _check_labels(self) -> None:
        if self.task not in (*SEVERAL, RANKING, NEXT_TOKEN):
            check_rows("labels", self.labels)
        elif np.ndim(self.labels) != 2 or not np.size(self.labels):
            shape = f"shape {list(np.shape(self.labels))}"
            raise _error("labels", shape, "several answers for each example, and one example at least")

    def _check_numbers(self) -> None:
        numbers = {model: self.has_number(model) for model in self.predictions}
        needed = numbers.get(CHAMPION, True)
        for wrong, expected in self._faults(CHALLENGER):
            _none(f"predictions of the {CHALLENGER}", self.predictions[CHALLENGER], wrong & needed, expected)
        if self.task == REGRESSION:
            check_values("labels", self.labels)
        elif self.task in SEVERAL:
            _check_several(self.task, self.labels, self.prior)
        elif self.task in (RANKING, NEXT_TOKEN):
            _check_filled_up(self.task, self.labels)
        else:
            check_classes("labels", self.labels, self.classes or self.items)
        if self.task == RETRIEVAL:
            check_prior(self.prior, self.items)
        elif self.classes or self.task == REGRESSION:
            check_prior(self.prior, self.classes)
        if self.classes:
            check_prior(self.rates, self.classes)
        if self.weights is not None:
            check_weights(self.weights)
        if self.clusters is not None:
            check_clusters(self.clusters)
        for feature, texts in self.slices.items():
            check_texts(f"slices of '{feature}'", texts)


# --- Checks of single arrays. Each raises InputError, which names the first bad row.


# The largest number in datasets and exports. Sums of fourth powers of it do not overflow.
_LARGEST = float(np.finfo(np.float32).max)
_ROUNDING = 1e-5  # a softmax may exceed 1 by so much
_OFF_ONE = 0.02  # a sum of probabilities may differ from 1 by so much: bfloat16 has 8 bits


def check_rows(name: str, array: np.ndarray) -> None:
    """Checks for one dimension and at least one row."""
    if np.ndim(array) != 1 or not len(array):
        raise _error(
            name, f"shape {list(np.shape(array))}", "one number for each example, and one example at least"
        )


def as_many_rows(name: str, array: np.ndarray, number: int) -> None:
    if not np.ndim(array) or len(array) != number:
        raise _error(name, f"shape {list(np.shape(array))}", f"{number:,} rows, as there are labels")


def check_values(name: str, array: np.ndarray) -> None:
    """Checks for finite numbers, [n] or [n, 1]."""
    for wrong, expected in faults_of_values(name, array):
        _none(name, array, wrong, expected)


def faults_of_values(name: str, array: np.ndarray) -> Iterator[tuple[np.ndarray, str]]:
    if np.ndim(array) > 2 or np.shape(array)[1:] not in ((), (1,)):
        raise _error(name, f"shape {list(np.shape(array))}", "one value for each example")
    yield _beyond(name, array), _FINITE


def faults_of_probabilities(
    name: str, array: np.ndarray, *, classes: int, binary: bool
) -> Iterator[tuple[np.ndarray, str]]:
    """Checks probabilities of all classes, [n, classes], or of the positive one of two, [n]."""
    shape = np.shape(array)
    fits = shape[1:] in (((), (2,)) if binary else ((classes,),)) and classes > 1
    if not fits:
        expected = "[n] or [n, 2]" if binary else f"[n, {max(classes, 2)}]"
        raise _error(name, f"shape {list(shape)}", f"probabilities of shape {expected}")
    yield _beyond(name, array), _FINITE
    outside = (array < -_ROUNDING) | (array > 1 + _ROUNDING)
    yield outside.reshape(len(array), -1).any(axis=1), "probabilities from 0 to 1"
    if len(shape) == 2:
        with np.errstate(invalid="ignore"):  # infinities of both signs give NaN
            sums = array.sum(axis=1, dtype=np.float64)
        yield np.abs(sums - 1) > _OFF_ONE, "probabilities that add up to 1"


def faults_of_several(
    name: str, array: np.ndarray, answers: int, *, most: float | None
) -> Iterator[tuple[np.ndarray, str]]:
    """Checks numbers, [n, answers]; from 0 to `most` where it is given."""
    if np.shape(array)[1:] != (answers,):
        raise _error(name, f"shape {list(np.shape(array))}", f"numbers of shape [n, {answers}]")
    yield _beyond(name, array), _FINITE
    if most is not None:
        outside = (array < -_ROUNDING) | (array > most + _ROUNDING)
        yield outside.any(axis=1), f"probabilities from 0 to {most}"


def _faults_of_ranks(name: str, array: np.ndarray) -> Iterator[tuple[np.ndarray, str]]:
    """Checks log-probabilities of chosen items, and how many others are better and equal: [n, 3]."""
    yield from faults_of_several(name, array, 3, most=None)
    logs, counts = array[:, 0], array[:, 1:]
    yield logs > _ROUNDING, _LOGS
    yield ((counts < 0) | (counts != np.floor(counts))).any(axis=1), "whole numbers of items from 0 on"


def _faults_of_tokens(name: str, array: np.ndarray, length: int) -> Iterator[tuple[np.ndarray, str]]:
    if np.shape(array)[1:] != (length, 2):
        raise _error(name, f"shape {list(np.shape(array))}", f"log-probabilities of shape [n, {length}, 2]")
    yield _beyond(name, array), _FINITE
    yield (array > _ROUNDING).any(axis=(1, 2)), _LOGS


def _check_filled_up(task: str, labels: np.ndarray) -> None:
    """Checks the labels of groups or of tokens, [n, length]; below 0 where there is none."""
    _finite("labels", labels)
    what = {RANKING: "a relevance", NEXT_TOKEN: "a token"}[task]
    _none("labels", labels, (labels != np.floor(labels)).any(axis=1), f"{what}, as whole numbers")
    if not np.any(np.asarray(labels) >= 0):
        raise _error("labels", "numbers below 0 only", f"{what} from 0 on in one row at least")


def _check_several(task: str, labels: np.ndarray, prior: float | np.ndarray | None) -> None:
    """Checks labels, [n, answers], and a prior of each answer."""
    _finite("labels", labels)
    if task == MULTILABEL:
        _none("labels", labels, ~np.isin(labels, (0, 1)).all(axis=1), "0 or 1 of each class")
    if prior is not None and np.shape(prior) != np.shape(labels)[1:]:
        raise _error("prior", f"shape {list(np.shape(prior))}", f"{np.shape(labels)[1]} numbers")


def check_classes(name: str, array: np.ndarray, number: int) -> None:
    """Checks class indices, [n]."""
    _finite(name, array)
    wrong = (array < 0) | (array >= number) | (array != np.floor(array))
    _none(name, array, wrong, f"class indices from 0 to {number - 1}")


def check_prior(value: float | np.ndarray | None, number: int) -> None:
    """Checks the rates of `number` classes, or the rate of the positive class of two; if `number` is 0, a
    mean.
    """
    if value is None:
        return
    shape = np.shape(value)
    if shape not in ([(), (2,)] if number == 2 else [(number,)] if number else [()]):
        expected = f"{number} rates" if number else "one mean"
        raise _error("prior", f"shape {list(shape)}", expected)
    _finite("prior", np.atleast_1d(value))
    rates = np.asarray(value, np.float64)
    if number and not (
        rates.min() >= 0 and rates.max() <= 1 and (not shape or abs(rates.sum() - 1) <= _OFF_ONE)
    ):
        raise _error("prior", np.array2string(rates, threshold=10), "rates from 0 to 1 that add up to 1")


def check_weights(array: np.ndarray) -> None:
    check_rows("weights", array)
    _finite("weights", array)
    _none("weights", array, array < 0, "numbers from 0 on")
    if not np.any(array > 0):
        raise _error("weights", "0 for all examples", "one above 0 at least")


def check_clusters(array: np.ndarray) -> None:
    check_rows("clusters", array)
    if np.asarray(array).dtype.kind in "fc":
        _finite("clusters", array)
    try:
        np.unique(array)
    except TypeError as error:
        raise _error("clusters", f"values that cannot be sorted ({error})", "values of one type") from None


def check_texts(name: str, array: np.ndarray) -> None:
    check_rows(name, array)
    if np.asarray(array).dtype.kind in "UT":
        return
    is_text = np.fromiter((isinstance(value, str) for value in array), bool, len(array))
    _none(name, array, ~is_text, "text")


_FINITE = "finite float32 numbers"
_LOGS = "log-probabilities of 0 or less"


def _finite(name: str, array: np.ndarray) -> None:
    _none(name, array, _beyond(name, array), _FINITE)


def _beyond(name: str, array: np.ndarray) -> np.ndarray:
    """Returns which rows hold NaN, or a number beyond float32, bool [n]."""
    array = np.asarray(array)
    if array.dtype.kind in "OUSTMmc":
        raise _error(name, f"an array of {array.dtype}", "an array of numbers")
    beyond = ~(np.abs(array) <= _LARGEST)  # true for NaN too
    return beyond.reshape(len(array), -1).any(axis=1)


def _none(name: str, array: np.ndarray, wrong: np.ndarray, expected: str) -> None:
    """Raises InputError if a row is wrong, as `wrong`, bool [n], says."""
    if wrong.any():
        row = int(np.argmax(wrong))
        found = np.asarray(array)[row : row + 1]
        value = _format(found.tolist()[0] if found.ndim == 1 else found.ravel().tolist())
        raise _error(name, f"{value} in row {row:,} ({int(wrong.sum()):,} such rows)", expected)


def _format(value: object) -> str:
    """Formats a cell, or the first cells of a row."""
    if isinstance(value, list):
        return f"[{', '.join(f'{one:g}' for one in value[:5])}{', …' if len(value) > 5 else ''}]"
    return repr(value)


def _error(
    name: str,
    received: str,
    expected: str,
    action: str = "Correct what was scored, or how it was read.",
) -> InputError:
    return InputError(f"{name} that the gate gets", received=received, expected=expected, action=action)


# --- Scores as statistics need them: the rows that count, and a column for each model and metric.


PRIOR = "prior"  # name of the model that knows no features


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepared:
    """Rows with a weight above 0.

    Attributes:
      labels: int64 classes or float64 values, [n], or [n, answers] if an example has several.
      numbered: the numbers of distinct labels, int64 [n]: see Sample.labels.
      predictions: by model, [n, classes] or [n, answers], or float64 [n], or as Scored has them; also those
        of the prior where there is no champion.
      weights: float64 [n], 1 at most; None where all rows count the same.
      rates: the rate of each class in training; NaN: not known; empty for a regression.
      clusters: int64 [n], from 0 on; None: rows are independent.
      are_copies: whether clusters are copies of one row each.
      kept: bool [all rows], True where the weight is above 0.
    """

    labels: np.ndarray
    numbered: np.ndarray
    predictions: Mapping[str, np.ndarray]
    rates: Mapping[str, float]
    weights: np.ndarray | None
    clusters: np.ndarray | None
    are_copies: bool
    kept: np.ndarray

    def sample(self, metric: Metric) -> Sample:
        """Returns each model's column of the metric."""
        return Sample(
            columns={model: metric.column(self.labels, made) for model, made in self.predictions.items()},
            labels=self.numbered,
            rates=self.rates,
            weights=self.weights,
            clusters=self.clusters,
            are_copies=self.are_copies,
        )


def _numbered(scored: Scored, labels: np.ndarray) -> np.ndarray:
    """The numbers of distinct labels, [n].

    Groups without a relevant row have one label: there, all orders are worth the same. Every other group and
    every row of tokens has a label of its own.
    """
    if scored.classes:
        return labels
    if scored.task in (RANKING, NEXT_TOKEN):
        is_open = scored.task == RANKING and ~(labels > 0).any(axis=1)
        return np.where(is_open, 0, np.arange(1, len(labels) + 1))
    return np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1)


def prepare(scored: Scored) -> Prepared:
    kept, weights = _weights(scored)
    has_values = scored.task in (REGRESSION, MULTITARGET)
    labels = np.asarray(scored.labels)[kept].astype(np.float64 if has_values else np.int64)
    predictions = {model: _predictions(scored.task, made)[kept] for model, made in scored.predictions.items()}
    if scored.clusters is None:
        texts = [np.asarray(column)[kept] for column in scored.slices.values()]
        beside = [*predictions.values(), *([] if weights is None else [weights]), *texts]
        content = None if scored.content is None else np.asarray(scored.content)[kept]
        clusters = find_copies(labels, beside, content=content)
    else:
        clusters = np.unique(np.asarray(scored.clusters)[kept], return_inverse=True)[1]
    if CHAMPION not in predictions:
        predictions[PRIOR] = _prior(scored, labels, weights)
    return Prepared(
        labels=labels,
        numbered=_numbered(scored, labels),
        predictions=predictions,
        rates=_rates(scored),
        weights=weights,
        clusters=clusters,
        are_copies=scored.clusters is None and clusters is not None,
        kept=kept,
    )


def _rates(scored: Scored) -> dict[str, float]:
    if not scored.classes:
        return {}
    found = scored.prior if scored.rates is None else scored.rates
    names = scored.class_names or [str(number) for number in range(scored.classes)]
    if not names or found is None:
        return dict.fromkeys(names, np.nan)
    found = np.array([1 - found, found]) if np.ndim(found) == 0 else found
    return {name: float(rate) for name, rate in zip(names, found, strict=True)}


def _weights(scored: Scored) -> tuple[np.ndarray, np.ndarray | None]:
    """Returns which rows count, bool [all rows], and their weights relative to the largest, [n].

    A row of tokens weighs as many as it predicts, so that a mean over rows is one over tokens.
    """
    weights = None if scored.weights is None else np.asarray(scored.weights, np.float64)
    if scored.task == NEXT_TOKEN:
        predicted = (np.asarray(scored.labels) >= 0).sum(axis=1)
        weights = predicted * (1.0 if weights is None else weights)
    if weights is None:
        return np.ones(scored.rows, bool), None
    weights = weights / weights.max()
    kept = weights > 0
    return kept, None if np.all(weights[kept] == 1) else weights[kept]


def _predictions(task: str, made: np.ndarray) -> np.ndarray:
    made = np.asarray(made)
    if task == REGRESSION:
        return made.reshape(len(made)).astype(np.float64)
    if task in SEVERAL:
        return made.astype(np.float64)
    if task not in _ONE_OF_CLASSES:
        return made
    return made if made.ndim == 2 else np.stack([1 - made.astype(np.float64), made], axis=1)


def _prior(scored: Scored, labels: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Returns the same prediction for every row."""
    found = scored.prior
    if scored.task == RETRIEVAL:
        return priors.popularity(labels, weights, items=scored.items, shares=found)
    if scored.task == RANKING:
        return np.zeros(labels.shape)  # equal scores: what a random order is worth
    if scored.task == NEXT_TOKEN:
        return priors.frequencies(labels, weights)
    if scored.task in SEVERAL:
        found = np.average(labels, axis=0, weights=weights) if found is None else found
        return np.broadcast_to(np.asarray(found, np.float64), labels.shape)
    if scored.task == REGRESSION:
        return np.full(len(labels), np.average(labels, weights=weights) if found is None else float(found))
    if found is None:
        rates = np.bincount(labels, weights=weights, minlength=scored.classes)
        found = rates / rates.sum()
    elif np.ndim(found) == 0:
        found = [1 - float(found), float(found)]
    return np.broadcast_to(np.asarray(found, np.float64), (len(labels), scored.classes))
