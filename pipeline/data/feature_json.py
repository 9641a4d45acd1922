"""The JSON form of one feature, and what a schema file may get wrong in it."""

import dataclasses
from collections.abc import Mapping

from pipeline.data.errors import InputError
from pipeline.data.feature import Clean, Feature
from pipeline.data.features import KINDS

# Fields of a feature that change no byte of the records.
COMMENTS = ("description", "evidence", "max_missing_fraction")


def to_json(feature: Feature, *, comments: bool) -> dict:
    """JSON form; fields left at their default are left out."""
    document: dict = {"kind": feature.kind}
    for field in dataclasses.fields(feature):
        value = getattr(feature, field.name)
        if field.name in COMMENTS and not comments:
            continue
        if field.name == "clean":
            value = _non_defaults(value)
            if value:
                document["clean"] = value
        elif field.name == "name" or value != _default(field):
            document[field.name] = _plain(value)
    return document


def from_json(document: object) -> Feature:
    """The inverse of `to_json`; raises InputError naming the field that is wrong."""
    if not isinstance(document, Mapping):
        raise schema_error("features", repr(document), "an object for each feature")
    kind = KINDS.get(str(document.get("kind")))
    thing = f"feature '{document.get('name', '?')}'"
    if kind is None:
        raise schema_error(f"{thing}, field 'kind'", document.get("kind"), f"one of {', '.join(KINDS)}")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    refuse_unknown_keys(thing, document, {*fields, "kind"})
    values = {name: _typed(thing, fields[name], v) for name, v in document.items() if name != "kind"}
    return kind(**{"name": "", **values})


def _typed(thing: str, field: dataclasses.Field, value: object) -> object:
    """Checks a JSON value against the type of the field it is meant for."""
    if field.name == "clean":
        return _clean_from_json(thing, value)
    wanted, items = _json_types(field)
    members = [*value.keys(), *value.values()] if isinstance(value, Mapping) else value
    right = _is_a(value, wanted) and (not items or all(_is_a(member, items) for member in members))
    if not right:
        expected = " or ".join(kind.__name__ for kind in wanted)
        of = f" of {items[0].__name__}" if items else ""
        raise schema_error(f"{thing}, field '{field.name}'", repr(value), expected + of)
    return tuple(value) if isinstance(value, list) else value


def _json_types(field: dataclasses.Field) -> tuple[tuple[type, ...], tuple[type, ...]]:
    """JSON types of a field's value and, where that is a list or an object, of what is in it."""
    if field.name == "default":
        return (int, float, str, type(None)), ()
    if field.name in ("minimum", "maximum", "max_missing_fraction"):
        return (int, float, type(None)), ()
    default = _default(field)
    if isinstance(default, tuple):
        return (list,), ((int,) if field.name == "dimensions" else (str,))
    return (type(default),), ((str,) if field.name == "aliases" else ())


def _is_a(value: object, types: tuple[type, ...]) -> bool:
    # JSON's true is no number, though Python's is.
    return isinstance(value, types) and not isinstance(value, bool)


def _clean_from_json(thing: str, document: object) -> Clean:
    if not isinstance(document, Mapping):
        raise schema_error(f"{thing}, field 'clean'", repr(document), "an object")
    fields = {field.name: field for field in dataclasses.fields(Clean)}
    refuse_unknown_keys(f"{thing}, field 'clean'", document, set(fields))
    return Clean(**{name: _typed(thing, fields[name], value) for name, value in document.items()})


def _default(field: dataclasses.Field) -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return "" if field.default is dataclasses.MISSING else field.default


def _non_defaults(clean: Clean) -> dict:
    values = {field.name: getattr(clean, field.name) for field in dataclasses.fields(clean)}
    defaults = {field.name: _default(field) for field in dataclasses.fields(clean)}
    return {name: _plain(value) for name, value in values.items() if value != defaults[name]}


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def refuse_unknown_keys(thing: str, document: Mapping, allowed: set[str]) -> None:
    unknown = sorted(set(document) - allowed)
    if unknown:
        raise schema_error(f"{thing}, keys", ", ".join(unknown), f"only {', '.join(sorted(allowed))}")


def schema_error(thing: str, received: object, expected: str) -> InputError:
    return InputError(
        f"schema {thing}".replace("schema schema", "schema"),
        received=received,
        expected=expected,
        action="Correct the schema file.",
    )
