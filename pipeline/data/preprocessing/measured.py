"""Refuses inputs whose preprocessing is learned from statistics that their schema does not keep."""

from pipeline.data.errors import InputError
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.kinds import Categorical, Datetime, Numeric
from pipeline.data.schema.schema import Schema


def check_measured(schema: Schema) -> None:
    """Raises InputError for the first input of a model that needs statistics and declares `none`."""
    for feature in schema.inputs:
        if feature.statistics == "none" and _is_learned(feature):
            raise InputError(
                f"feature '{feature.name}' as a model's input",
                received='"statistics": "none"',
                expected="its statistics, from which standardising or a vocabulary is learned",
                action="Remove the field and convert again, or move the column to 'ignore'.",
            )


def _is_learned(feature: Feature) -> bool:
    if isinstance(feature, Categorical):
        return feature.encoding == "vocabulary" and not feature.vocabulary
    return isinstance(feature, Numeric | Datetime)
