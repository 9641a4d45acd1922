"""The column of the data that weighs the examples: which one it is, and what counts as a weight of 1.

Any number of the schema can weigh them. The model does not get this column, so requests to an export need not
have it.
"""

import dataclasses
import math
from collections.abc import Mapping

from pipeline.base.errors import InputError, did_you_mean
from pipeline.data.dataset.statistics import FeatureStatistics, SplitStatistics
from pipeline.data.schema.feature_types import Numeric
from pipeline.data.schema.schema import Schema

FLAG = "--config.train.example_weights"


def column(name: str, schema: Schema) -> Numeric | None:
    """The feature that weighs the examples; None if the name is empty, so that all count the same.

    Raises:
      InputError: the schema has no such number, or no other feature that could be an input of the model.
    """
    weights = named(name, schema)
    if weights and len(schema.inputs) == 1:
        expected = "another column: this is all that the model is fed with"
        raise _error(FLAG, repr(weights.name), expected, "Correct it.")
    return weights


def named(name: str, schema: Schema, *, flag: str = FLAG) -> Numeric | None:
    """The feature with this name; None if `name` is empty. Raises InputError unless it is numeric."""
    if not name:
        return None
    if schema.group:
        expected = "'': an example is a group of rows, which have a number each"
        raise _error(flag, repr(name), expected, "Leave it empty.")
    numbers = {feature.name: feature for feature in schema.of_type(Numeric)}
    if name not in numbers:
        known = ", ".join(list(numbers)[:10]) + (", …" if len(numbers) > 10 else "")
        expected = f"a feature of kind numeric: {known}" if numbers else "'': the schema has no numbers"
        raise _error(flag, repr(name), expected, _way_out(name, numbers, schema))
    return numbers[name]


def fed(name: str, schema: Schema) -> Schema:
    """The schema of the model's inputs: raw data may have the column of weights, or lack it."""
    weights = column(name, schema)
    if weights is None:
        return schema
    features = tuple(feature for feature in schema.features if feature is not weights)
    read = {feature.source_column for feature in features} | set(schema.placing_columns)
    unread = {weights.source_column: "weighs examples in training"}
    ignore = dict(schema.ignore) | ({} if weights.source_column in read else unread)
    return dataclasses.replace(schema, features=features, ignore=ignore)


def mean(weights: Numeric, statistics: SplitStatistics) -> float:
    """The mean weight of an example of the train split, above 0; `statistics` are those of that split.

    Raises:
      InputError: it was not measured, or is not above 0.
    """
    measured = statistics.features.get(weights.name)
    if measured is None or measured.numeric is None:
        expected = "a column whose statistics were kept: their mean is the weight that counts as 1"
        raise _error(FLAG, f"'{weights.name}'", expected, "Choose another column, or convert the data again.")
    found = _mean_with_defaults(weights, measured)
    if not 0 < found < math.inf:
        received = f"'{weights.name}', of mean {found:g} in the train split"
        raise _error(FLAG, received, "weights from 0 on, some of them above", "Correct the data.")
    return found


def may_hold_others(weights: Numeric, measured: FeatureStatistics | None) -> bool:
    """Returns whether, according to its statistics, a split may hold a value that is not a weight: negative,
    or missing.
    """
    if measured is None or measured.numeric is None:
        return True
    if measured.missing and (weights.missing == "mark" or _default(weights) < 0):
        return True
    return bool(measured.present) and not 0 <= measured.numeric.minimum + weights.offset < math.inf


def _way_out(name: str, numbers: Mapping[str, Numeric], schema: Schema) -> str:
    if any(
        feature.name == name for feature in schema.inputs
    ):  # infer_schema takes few numbers for categories
        return "Give it that kind in the schema, and convert the data again."
    return did_you_mean(name, list(numbers), otherwise="Correct it, or leave it empty.")


def _mean_with_defaults(weights: Numeric, measured: FeatureStatistics) -> float:
    present = measured.numeric.mean + weights.offset
    if not measured.missing or weights.missing == "mark":
        return present
    count = measured.present + measured.missing
    return (present * measured.present + _default(weights) * measured.missing) / count


def _default(weights: Numeric) -> float:
    return float(weights.default or 0)


def _error(flag: str, received: str, expected: str, action: str) -> InputError:
    return InputError(flag, received=received, expected=expected, action=action)
