"""The JSON form of one feature, and what a schema file may get wrong in it."""

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping, Sequence

from pipeline.base.errors import InputError
from pipeline.data.schema.feature import Clean, Feature
from pipeline.data.schema.feature_types import FEATURE_TYPES

# Fields that follow from others of the schema.
_DERIVED = ("group_length",)
# Fields that change no byte of the records.
COMMENTS = ("description", "evidence", "max_missing_fraction", "statistics")


def feature_to_json(feature: Feature, *, comments: bool) -> dict:
    """The feature as JSON, without the fields that are left at their default."""
    document: dict = {"kind": feature.kind}
    for field in dataclasses.fields(feature):
        value = getattr(feature, field.name)
        if field.name in _DERIVED or (field.name in COMMENTS and not comments):
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


def feature_from_json(document: object) -> Feature:
    """The inverse of `feature_to_json`; raises an InputError that names the wrong field."""
    if not isinstance(document, Mapping):
        raise schema_error("features", repr(document), "an object for each feature")
    kind = FEATURE_TYPES.get(str(document.get("kind")))
    thing = f"feature '{document.get('name', '?')}'"
    if kind is None:
        expected = f"one of {', '.join(FEATURE_TYPES)}"
        raise schema_error(f"{thing}, field 'kind'", document.get("kind"), expected)
    fields = {field.name for field in dataclasses.fields(kind)}.difference(_DERIVED)
    refuse_unknown_keys(thing, document, {"kind", *fields}, needed=_needed(kind))
    values = {name: _typed(thing, kind, name, v) for name, v in document.items() if name != "kind"}
    return kind(**{"name": "", **values})


def _typed(thing: str, owner: type, field: str, value: object) -> object:
    """Turns a JSON value into what the field of the dataclass `owner` holds; checks it against the
    annotation.
    """
    hint = _hints(owner)[field]
    if hint is Clean:
        return _clean_from_json(thing, value)
    wanted, items = _json_types(hint)
    members = [*value.keys(), *value.values()] if isinstance(value, Mapping) else value
    right = _is_a(value, wanted) and (not items or all(_is_a(member, items) for member in members))
    if not right:
        raise schema_error(f"{thing}, field '{field}'", repr(value), _in_words(wanted, items))
    return tuple(value) if isinstance(value, list) else value


# What a schema file may hold, in words: one, several.
_WORDS = {
    str: ("a text", "texts"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "true or false"),
    list: ("a list", "lists"),
    dict: ("an object", "objects"),
    types.NoneType: ("null", "null"),
}


def _in_words(wanted: Sequence[type], items: Sequence[type]) -> str:
    """Formats the types of a value and of its members, such as `a list of texts`."""
    kinds = [kind for kind in wanted if not (kind is int and float in wanted)]
    of = f" of {_WORDS[items[0]][1]}" if items else ""
    return " or ".join(_WORDS[kind][0] for kind in kinds) + of


_hints = functools.cache(typing.get_type_hints)


def _json_types(hint: object) -> tuple[tuple[type, ...], tuple[type, ...]]:
    """JSON types of a value with this annotation, and those of the members of a list or an object."""
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


def _needed(kind: type[Feature]) -> str:
    """Says which keys a feature of this kind cannot lack."""
    named = [
        field.name
        for field in dataclasses.fields(kind)
        if field.default is field.default_factory is dataclasses.MISSING
    ]
    return f"; kind '{kind.kind}' needs {' and '.join(named)} alone, and what is left out has its default"


def _is_a(value: object, types: tuple[type, ...]) -> bool:
    # In JSON, true is not a number; in Python it is.
    return isinstance(value, types) and (bool in types or not isinstance(value, bool))


def _clean_from_json(thing: str, document: object) -> Clean:
    if not isinstance(document, Mapping):
        raise schema_error(f"{thing}, field 'clean'", repr(document), "an object")
    known = {field.name for field in dataclasses.fields(Clean)}
    refuse_unknown_keys(f"{thing}, field 'clean'", document, known)
    return Clean(**{name: _typed(thing, Clean, name, value) for name, value in document.items()})


def _default(field: dataclasses.Field) -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return "" if field.default is dataclasses.MISSING else field.default


def _non_defaults(clean: Clean) -> dict:
    values = [(field, getattr(clean, field.name)) for field in dataclasses.fields(clean)]
    return {field.name: _plain(value) for field, value in values if value != _default(field)}


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def refuse_unknown_keys(thing: str, document: Mapping, allowed: set[str], *, needed: str = "") -> None:
    """Raises InputError if `document` has a key that is not `allowed`; `needed` says which it must have."""
    unknown = sorted(set(document) - allowed)
    if unknown:
        expected = f"only {', '.join(sorted(allowed))}{needed}"
        raise schema_error(f"{thing}, keys", ", ".join(unknown), expected)


def schema_error(thing: str, received: object, expected: str) -> InputError:
    return InputError(
        f"schema {thing}".replace("schema schema", "schema"),
        received=received,
        expected=expected,
        action="Correct the schema file.",
    )
