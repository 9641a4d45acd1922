"""A proposed schema as a table to read in a terminal."""

from pipeline.data.printable import printable
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.schema import Schema

_LINE = 160  # characters that are shown of a feature


def text(schema: Schema) -> str:
    """A line for each feature: how it is proposed, and what was seen of it."""
    rows = [("feature", "proposed", "missing", "distinct", "examples")]
    for feature in schema.features:
        seen = feature.evidence
        missing = _percent(seen["missing_fraction"]) if "missing_fraction" in seen else ""
        examples = ", ".join(map(str, seen.get("examples", seen.get("sizes", ()))))
        row = (feature.name, _description(feature), missing, str(seen.get("distinct", "")), examples)
        rows.append(tuple(map(printable, row)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip()[:_LINE] for line in lines)


def _percent(fraction: float) -> str:
    return "<0.1%" if 0 < fraction < 0.001 else f"{fraction:.1%}"


def _description(feature: Feature) -> str:
    """`categorical, vocabulary of 8`, and so on: the fields that differ from the defaults, in short."""
    document = schema_lib.to_json(Schema(name="one", features=(feature,)), comments=False)["features"][0]
    shown = {"vocabulary": len, "classes": lambda names: ", ".join(names[:4]) + (" …" if names[4:] else "")}
    parts = [
        f"{key}={shown.get(key, str)(value)}"
        for key, value in document.items()
        if key not in ("kind", "name", "clean")
    ]
    return " ".join([feature.kind, *parts])
