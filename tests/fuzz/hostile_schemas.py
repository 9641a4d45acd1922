"""Schema files that somebody edited: other types, other names, paths in place of names."""

import json
import pathlib
from collections.abc import Callable
from typing import Any

from tests.fuzz.case import Case, Sound

Change = Callable[[Any], Any]


def _steps(folder: pathlib.Path, sound: Sound) -> tuple[tuple[str, ...], ...]:
    given = (f"--input={sound.root / 'data.csv'}", f"--schema={folder / 'schema.json'}")
    return (("beam_jobs.convert", *given, f"--output={folder / 'out' / '1.0.0'}"),)


def _raw(name: str, data: bytes) -> Case:
    write = lambda folder, sound: (folder / "schema.json").write_bytes(data)  # noqa: E731 - one line
    return Case(name=f"schema_{name}", write=write, steps=_steps)


def _changed(name: str, change: Change) -> Case:
    def write(folder: pathlib.Path, sound: Sound) -> None:
        document = json.loads(sound.schema("data.csv").read_text())
        (folder / "schema.json").write_text(json.dumps(change(document) or document))

    return Case(name=f"schema_{name}", write=write, steps=_steps)


def _feature(number: int, **fields: object) -> Change:
    return lambda document: document["features"][number].update(fields)


def _top(**fields: object) -> Change:
    return lambda document: document.update(fields)


def _directory(folder: pathlib.Path, sound: Sound) -> None:
    del sound
    (folder / "schema.json").mkdir()


_DEEP = b"[" * 200_000 + b"]" * 200_000
CASES = (
    Case(name="schema_directory", write=_directory, steps=_steps),
    _raw("empty", b""),
    _raw("not_utf8", b'{"name": "\xff"}'),
    _raw("no_json", b"name: data"),
    _raw("scalar", b"7"),
    _raw("list", b"[]"),
    _raw("deep", _DEEP),
    _raw("bom", b"\xef\xbb\xbf{}"),
    _raw("empty_object", b"{}"),
    _changed("name_path", _top(name="../../evil")),
    _changed("name_absolute", _top(name="/tmp/evil")),
    _changed("name_of_300", _top(name="x" * 300)),
    _changed("name_nul", _top(name="a\0b")),
    _changed("name_number", _top(name=7)),
    _changed("name_surrogate", _top(name="\ud800")),
    _changed("features_object", _top(features={})),
    _changed("features_empty", _top(features=[])),
    _changed("features_null", _top(features=None)),
    _changed("features_strings", _top(features=["age"])),
    _changed("features_twice", lambda document: document["features"].extend(document["features"])),
    _changed("version_huge", _top(format_version=10**30)),
    _changed("unknown_key", _top(evil=True)),
    _changed("kind_unknown", _feature(0, kind="widget")),
    _changed("kind_list", _feature(0, kind=[])),
    _changed("feature_name_nul", _feature(0, name="a\0b")),
    _changed("feature_name_empty", _feature(0, name="")),
    _changed("feature_name_surrogate", _feature(0, name="\udc00")),
    _changed("feature_name_of_100_kb", _feature(0, name="n" * 100_000)),
    _changed("default_nan", _feature(0, missing="default", default=float("nan"))),
    _changed("default_text", _feature(0, missing="default", default="x")),
    _changed("default_huge", _feature(0, missing="default", default=10**40)),
    _changed("default_infinite", _feature(0, missing="default", default=float("inf"))),
    _changed("minimum_nan", _feature(0, minimum=float("nan"))),
    _changed("bounds_crossed", _feature(0, minimum=9, maximum=1)),
    _changed("boundaries_unsorted", _feature(0, boundaries=[3, 1, 2])),
    _changed("vocabulary_number", _feature(1, vocabulary=7)),
    _changed("vocabulary_mixed", _feature(1, vocabulary=["a", 1, None])),
    _changed("vocabulary_surrogate", _feature(1, vocabulary=["\ud800", "a"])),
    _changed("buckets_huge", _feature(1, vocabulary=[], hash_buckets=1 << 62)),
    _changed("buckets_negative", _feature(1, vocabulary=[], hash_buckets=-1)),
)
