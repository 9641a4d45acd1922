"""Value clean-up of whole columns, as `feature.Clean` declares it.

`pipeline/data/preprocessing/request_cleaning.py` does the same to raw strings when a model serves.
"""

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.data.schema.feature import Clean


def clean(text: pa.StringArray, rules: Clean) -> pa.StringArray:
    """Cleaned text [rows] of `text` [rows]; null where the value is missing."""
    if rules.strip:
        text = pc.utf8_trim(text, characters=rules.strip)
    if rules.null_markers:
        missing = pc.is_in(text, value_set=pa.array(rules.null_markers, pa.string()))
        text = pc.if_else(missing, pa.scalar(None, pa.string()), text)
    if rules.aliases:
        spelling = pc.index_in(text, value_set=pa.array(rules.aliases.keys(), pa.string()))
        text = pc.coalesce(pa.array(rules.aliases.values(), pa.string()).take(spelling), text)
    for part in rules.remove:
        text = pc.replace_substring(text, pattern=part, replacement="")
    if rules.decimal != ".":
        text = pc.replace_substring(text, pattern=rules.decimal, replacement=".")
    return text
