"""scikit-learn's models of a table, as a person would try them first. The package is optional."""

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module  # for a package that requirements.txt does not have

import numpy as np

from pipeline.training.baselines.table import CATEGORIES, NUMBERS, TEXTS, Table

_MOST_CATEGORIES = 254  # of a column: histogram gradient boosting has 255 bins for it
_MOST_ITERATIONS = 1_000  # the solver's default of 100 is too few for one-hot columns
_WORDS_OF_TREES = 100  # of a text; each is a column

Fit = Callable[[Table], np.ndarray]  # the predictions for a table's rows: see fitted


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """One kind of model. `build` gives a pipeline of scikit-learn that takes the cells of such a table."""

    name: str
    title: str
    build: Callable[[Table, int], object]  # (table, number of classes; 0 for a regression)


def is_installed() -> bool:
    try:
        import_module("sklearn")
    except ImportError:
        return False
    return True


def version() -> str:
    return import_module("sklearn").__version__


def models_for(table: Table, classes: int) -> Iterator[Model]:
    """Yields the models that can be fitted; trees only with numbers or categories, not with texts alone."""
    title = "logistic regression" if classes else "ridge regression"
    yield Model(name="linear", title=title, build=_linear)
    if table.of(NUMBERS) or table.of(CATEGORIES):
        yield Model(name="boosting", title="gradient boosting", build=_boosting)


def fitted(model: Model, table: Table, *, classes: int) -> Fit:
    """Fits a model to the table's rows.

    Returns:
      Function of a table to probabilities float64 [n, classes], or to values float64 [n] of a regression.

    Raises:
      ValueError: the model cannot be fitted to such rows, such as to those of a single class.
    """
    pipeline = model.build(table, classes)
    last = pipeline.steps[-1][0]
    weighing = {} if table.weights is None else {f"{last}__sample_weight": table.weights}
    with on_one_thread():
        pipeline.fit(table.cells, table.labels, **weighing)

    def predict(other: Table) -> np.ndarray:
        with on_one_thread():
            if not classes:
                return np.asarray(pipeline.predict(other.cells), np.float64)
            found = np.zeros((len(other.labels), classes))  # nothing is known about a class without a row
            found[:, pipeline.classes_] = pipeline.predict_proba(other.cells)
            return found

    return predict


def score(answer: np.ndarray, labels: np.ndarray) -> float:
    """ROC AUC of two classes, accuracy of several, R² of values; 1 is perfect.

    Args:
      answer: what a `Fit` gives.
      labels: [n].
    """
    [metrics] = _of("metrics")
    if answer.ndim == 1:
        return float(metrics.r2_score(labels, answer))
    if answer.shape[1] == 2:
        return float(metrics.roc_auc_score(labels, answer[:, 1]))
    return float(np.mean(answer.argmax(axis=1) == labels))


@contextlib.contextmanager
def on_one_thread() -> Iterator[None]:
    """Keeps libraries to one thread, and warnings quiet: threads of OpenMP wait busily beside others."""
    with warnings.catch_warnings(), import_module("threadpoolctl").threadpool_limits(1):
        warnings.simplefilter("ignore")  # they say that a solver stopped early, or that a category is new
        yield


def _linear(table: Table, classes: int) -> object:
    """Standardised numbers, one-hot categories, and TF-IDF of words and pairs of words."""
    compose, impute, linear, pipeline, preprocessing = _of(
        "compose", "impute", "linear_model", "pipeline", "preprocessing"
    )
    numbers = pipeline.make_pipeline(
        impute.SimpleImputer(add_indicator=True, keep_empty_features=True), preprocessing.StandardScaler()
    )
    words = _words()
    columns = [
        ("numbers", numbers, table.of(NUMBERS)),
        ("categories", preprocessing.OneHotEncoder(handle_unknown="ignore"), table.of(CATEGORIES)),
        *((f"text {at}", words(sublinear_tf=True, ngram_range=(1, 2)), at) for at in table.of(TEXTS)),
    ]
    if not classes:
        return pipeline.make_pipeline(compose.ColumnTransformer(columns), linear.Ridge())
    strength = 10.0 if table.of(TEXTS) else 1.0  # 1 is the default, too much for the many words of a text
    last = linear.LogisticRegression(C=strength, max_iter=_MOST_ITERATIONS)
    return pipeline.make_pipeline(compose.ColumnTransformer(columns), last)


def _words() -> Callable:
    return import_module("sklearn.feature_extraction.text").TfidfVectorizer


def _boosting(table: Table, classes: int) -> object:
    """Histogram gradient boosting as it is by default: numbers with their gaps, categories as such, and the
    most frequent words of each text.
    """
    compose, ensemble, pipeline, preprocessing = _of("compose", "ensemble", "pipeline", "preprocessing")
    numbers, categories = table.of(NUMBERS), table.of(CATEGORIES)
    codes = preprocessing.OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=np.nan, max_categories=_MOST_CATEGORIES
    )
    columns = compose.ColumnTransformer(
        [
            ("numbers", preprocessing.FunctionTransformer(_as_numbers), numbers),
            ("categories", codes, categories),
            *(
                (f"text {at}", _words()(sublinear_tf=True, max_features=_WORDS_OF_TREES), at)
                for at in table.of(TEXTS)
            ),
        ],
        sparse_threshold=0.0,  # trees take no sparse columns
    )
    settings = {
        "categorical_features": range(len(numbers), len(numbers) + len(categories)) if categories else None,
        "random_state": 0,
    }
    if not classes:
        return pipeline.make_pipeline(columns, ensemble.HistGradientBoostingRegressor(**settings))
    # A class of one row cannot be in both parts that stopping early needs.
    is_split = np.unique(table.labels, return_counts=True)[1].min() > 1
    stops = "auto" if is_split else False
    last = ensemble.HistGradientBoostingClassifier(**settings, early_stopping=stops)
    return pipeline.make_pipeline(columns, last)


def _as_numbers(cells: np.ndarray) -> np.ndarray:
    return np.asarray(cells, np.float64)


def _of(*names: str) -> tuple:
    return tuple(import_module(f"sklearn.{name}") for name in names)
