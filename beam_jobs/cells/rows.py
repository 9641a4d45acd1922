"""How typed rows travel between the workers: Arrow batches: order hash, origin, a column a feature."""

import pyarrow as pa

from beam_jobs.cells.typed import arrow_type
from pipeline.data.schema.schema import Schema

# The column with each row's order hash. A feature's name is never empty, so the two cannot collide.
ORDER_COLUMN = ""


# The column with each row's origin, where it is kept. A feature's name is an identifier.
ORIGIN_COLUMN = "(origin)"


def arrow_schema(schema: Schema, *, origins: bool = False) -> pa.Schema:
    """The order hash (uint64); where `origins` are kept, each row's (uint64); then one column a feature."""
    origin = [(ORIGIN_COLUMN, pa.uint64())] if origins else []
    return pa.schema([(ORDER_COLUMN, pa.uint64()), *origin, *value_schema(schema)])


def value_schema(schema: Schema) -> pa.Schema:
    """One column a feature."""
    return pa.schema([(feature.name, arrow_type(feature)) for feature in schema.features])
