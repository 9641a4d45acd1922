"""The keys of a config: name, type, default and meaning, which is the comment in the config's own file.

Keys that a config takes from a dataclass have their meanings there; the config's file passes them on as
MEANINGS.
"""

import dataclasses
import inspect
import re
import types
from collections.abc import Iterator, Mapping

from ml_collections import ConfigDict

# `config.train.epochs = 10.0  # passes over the data`
_KEY = re.compile(r"\s*config\.(?P<key>[\w.]+) = .*?(?:  # (?P<comment>.*))?")
_COMMENT = re.compile(r"\s*# (?P<comment>.*)")
_TYPES = {
    "bool": "true or false",
    "float": "number",
    "int": "whole number",
    "str": "text",
    "tuple": "values, by commas",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Key:
    name: str  # train.epochs
    default: object
    meaning: str

    @property
    def type(self) -> str:
        """What a value of this key is, in words."""
        name = type(self.default).__name__
        return _TYPES.get(name, name)


def keys_of(module: types.ModuleType) -> tuple[Key, ...]:
    """Every key of the `get_config()` of `module`, in the order of its lines.

    The meaning is the comment at the end of a key's line, or else in the lines directly above it; or that in
    MEANINGS of `module`, if it has any.
    """
    meanings = _with_inner(_meanings(inspect.getsource(module)), getattr(module, "MEANINGS", {}))
    values = dict(leaves(module.get_config()))
    order = {name: number for number, name in enumerate(meanings)}
    names = sorted(values, key=lambda name: order.get(name, len(order)))
    return tuple(Key(name=name, default=values[name], meaning=_meaning(name, meanings)) for name in names)


def leaves(config: ConfigDict, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Dotted names and values of everything in `config` that is no ConfigDict itself."""
    for name, value in config.items():
        if isinstance(value, ConfigDict):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _meaning(name: str, meanings: Mapping[str, str]) -> str:
    """That of the key, or of the group that the config declares with the key in it."""
    return meanings.get(name) or meanings.get(name.rpartition(".")[0], "")


def _with_inner(meanings: Mapping[str, str], inner: Mapping[str, str]) -> dict[str, str]:
    """The meanings, each followed by those of the keys inside of it."""
    merged: dict[str, str] = {}
    for name, meaning in meanings.items():
        merged[name] = meaning
        merged |= {key: each for key, each in inner.items() if key.startswith(f"{name}.")}
    return merged


def _meanings(source: str) -> dict[str, str]:
    found: dict[str, str] = {}
    above: list[str] = []
    for line in source.splitlines():
        if comment := _COMMENT.fullmatch(line):
            above.append(comment["comment"])
            continue
        if key := _KEY.fullmatch(line):
            found[key["key"]] = key["comment"] or " ".join(above)
        above = []
    return found
