"""The JSON form of one feature, and what a schema file may get wrong in it."""

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping

from pipeline.data.errors import InputError
from pipeline.data.schema.feature import Clean, Feature
from pipeline.data.schema.kinds import KINDS

# Fields that change no byte of the records.
COMMENTS = ("description", "evidence", "max_missing_fraction", "statistics")


def to_json(feature: Feature, *, comments: bool) -> dict:
    """The feature as JSON, without the fields that are left at their default."""
    document: dict = {"kind": feature.kind}
    for field in dataclasses.fields(feature):
        value = getattr(feature, field.name)
        if field.name in COMMENTS and not comments:
            continue
        if field.name == "evidence" and feature.statistics == "none":
            continue  # it holds values
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
    refuse_unknown_keys(thing, document, {"kind", *(field.name for field in dataclasses.fields(kind))})
    values = {name: _typed(thing, kind, name, v) for name, v in document.items() if name != "kind"}
    return kind(**{"name": "", **values})


def _typed(thing: str, owner: type, field: str, value: object) -> object:
    """A JSON value as the field of the dataclass `owner` holds it, checked against the field's annotation."""
    hint = _hints(owner)[field]
    if hint is Clean:
        return _clean_from_json(thing, value)
    wanted, items = _json_types(hint)
    members = [*value.keys(), *value.values()] if isinstance(value, Mapping) else value
    right = _is_a(value, wanted) and (not items or all(_is_a(member, items) for member in members))
    if not right:
        expected = " or ".join(kind.__name__ for kind in wanted)
        of = f" of {items[0].__name__}" if items else ""
        raise schema_error(f"{thing}, field '{field}'", repr(value), expected + of)
    return tuple(value) if isinstance(value, list) else value


_hints = functools.cache(typing.get_type_hints)


def _json_types(hint: object) -> tuple[tuple[type, ...], tuple[type, ...]]:
    """JSON types of a value with this annotation and, of a list or an object, the types of its members."""
    origin, of = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return (type(of[0]),), ()
    if origin is types.UnionType:
        return tuple(dict.fromkeys(one for option in of for one in _json_types(option)[0])), ()
    if origin is tuple:
        return (list,), _json_types(of[0])[0]
    if origin is Mapping:
        return (dict,), (() if of[1] is object else (str,))
    return ((int, float) if hint is float else (hint,)), ()


def _is_a(value: object, types: tuple[type, ...]) -> bool:
    # In JSON, true is no number; in Python it is.
    return isinstance(value, types) and not isinstance(value, bool)


def _clean_from_json(thing: str, document: object) -> Clean:
    if not isinstance(document, Mapping):
        raise schema_error(f"{thing}, field 'clean'", repr(document), "an object")
    refuse_unknown_keys(
        f"{thing}, field 'clean'", document, {field.name for field in dataclasses.fields(Clean)}
    )
    return Clean(**{name: _typed(thing, Clean, name, value) for name, value in document.items()})


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
    """Raises InputError if `document` has a key that is not `allowed`."""
    unknown = sorted(set(document) - allowed)
    if unknown:
        raise schema_error(f"{thing}, keys", ", ".join(unknown), f"only {', '.join(sorted(allowed))}")


def schema_error(thing: str, received: object, expected: str) -> InputError:
    """The error of a schema whose `thing` is wrong."""
    return InputError(
        f"schema {thing}".replace("schema schema", "schema"),
        received=received,
        expected=expected,
        action="Correct the schema file.",
    )
