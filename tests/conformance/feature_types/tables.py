"""Every table of the product that is keyed by the kind of a feature."""

import importlib

from pipeline.data.schema.feature_types import FeatureTypeTable
from tests.house.imports import HOUSE, ROOT


def kind_tables() -> dict[str, FeatureTypeTable]:
    """The tables by the module that holds them."""
    makers = [
        module
        for module, path in HOUSE.modules.items()
        if not path.startswith("tests/") and "FeatureTypeTable(\n" in (ROOT / path).read_text()
    ]
    found = [vars(importlib.import_module(module)).values() for module in makers]
    tables = [value for values in found for value in values if isinstance(value, FeatureTypeTable)]
    return {table.where: table for table in tables}
