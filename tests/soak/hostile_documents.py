"""Schemas, manifests and files of a dataset that somebody edited who knows the formats."""

import hashlib
import json
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

from pipeline.data.dataset.manifest import FILE_NAME
from tests.soak.damaged import Hostile, Sound, convert_by, dataset_commands

Change = Callable[[Any], Any]


def _raw(name: str, data: bytes) -> Hostile:
    write = lambda folder, sound: (folder / "schema.json").write_bytes(data)  # noqa: E731 - one line
    return Hostile(name=f"schemas/{name}", write=write, commands=convert_by)


def _changed(name: str, change: Change) -> Hostile:
    def write(folder: pathlib.Path, sound: Sound) -> None:
        document = json.loads(sound.schema("data.csv").read_text())
        (folder / "schema.json").write_text(json.dumps(change(document) or document))

    return Hostile(name=f"schemas/{name}", write=write, commands=convert_by)


def _feature(number: int, **fields: object) -> Change:
    return lambda document: document["features"][number].update(fields)


def _top(**fields: object) -> Change:
    return lambda document: document.update(fields)


def _schema_directory(folder: pathlib.Path, sound: Sound) -> None:
    del sound
    (folder / "schema.json").mkdir()


_DEEP = b"[" * 200_000 + b"]" * 200_000
_SCHEMAS = (
    Hostile(name="schemas/directory", write=_schema_directory, commands=convert_by),
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


def _case(name: str, change: Callable[[pathlib.Path], object], *, dataset: str = "rows") -> Hostile:
    def write(folder: pathlib.Path, sound: Sound) -> None:
        shutil.copytree(sound.dataset(dataset), folder / "dataset")
        change(folder / "dataset")

    return Hostile(name=f"datasets/{name}", write=write, commands=dataset_commands(dataset))


def _manifest(name: str, change: Callable[[Any], Any]) -> Hostile:
    def rewrite(dataset: pathlib.Path) -> None:
        path = dataset / FILE_NAME
        document = json.loads(path.read_text())
        path.write_text(json.dumps(change(document) or document))

    return _case(f"manifest_{name}", rewrite)


def _shard(**fields: object) -> Callable[[Any], None]:
    return lambda document: document["splits"]["train"][0].update(fields)


def _file(**fields: object) -> Callable[[Any], None]:
    return lambda document: document["files"][0].update(fields)


def _replaced(file: str, data: bytes) -> Callable[[pathlib.Path], None]:
    """`file` holds `data`, and the manifest says so."""

    def change(dataset: pathlib.Path) -> None:
        (dataset / file).write_bytes(data)
        path = dataset / FILE_NAME
        document = json.loads(path.read_text())
        for listed in document["files"]:
            if listed["path"] == file:
                listed.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
        path.write_text(json.dumps(document))

    return change


def _directory(dataset: pathlib.Path) -> None:
    (dataset / FILE_NAME).unlink()
    (dataset / FILE_NAME).mkdir()


def _link(dataset: pathlib.Path) -> None:
    (dataset / FILE_NAME).unlink()
    (dataset / FILE_NAME).symlink_to("/dev/zero")


def _content(data: bytes) -> Callable[[pathlib.Path], None]:
    return lambda dataset: (dataset / FILE_NAME).write_bytes(data)


_DATASETS = (
    _case("manifest_directory", _directory),
    _case("manifest_device", _link),
    _case("manifest_empty", _content(b"")),
    _case("manifest_not_utf8", _content(b'{"name": "\xff"}')),
    _case("manifest_deep", _content(_DEEP)),
    _case("manifest_scalar", _content(b"7")),
    _case("manifest_empty_object", _content(b"{}")),
    _manifest("splits_list", _top(splits=[])),
    _manifest("splits_null", _top(splits=None)),
    _manifest("splits_none", _top(splits={})),
    _manifest("splits_of_text", _top(splits={"train": "x"})),
    _manifest("split_name_path", lambda d: d["splits"].update({"../x": d["splits"].pop("train")})),
    _manifest("files_object", _top(files={})),
    _manifest("files_missing", lambda d: {key: value for key, value in d.items() if key != "files"}),
    _manifest("rows_text", _top(rows_read="many")),
    _manifest("rows_huge", _top(rows_read=10**30)),
    _manifest("name_number", _top(name=7)),
    _manifest("layout_unknown", _top(layout="diagonal")),
    _manifest("layout_other", _top(layout="blocks")),
    _manifest("unknown_key", _top(evil=True)),
    _manifest("fingerprint_null", _top(schema_fingerprint=None)),
    _manifest("shard_outside", _shard(path="../../../../../../etc/passwd")),
    _manifest("shard_absolute", _shard(path="/etc/passwd")),
    _manifest("shard_nul", _shard(path="a\0b")),
    _manifest("shard_of_300", _shard(path="x" * 300)),
    _manifest("shard_number", _shard(path=7)),
    _manifest("shard_rows_text", _shard(rows="9")),
    _manifest("shard_rows_negative", _shard(rows=-1, records=-1)),
    _manifest("shard_rows_huge", _shard(rows=1 << 60, records=1 << 60)),
    _manifest("shard_rows_float", _shard(rows=1e99)),
    _manifest("shard_bytes_null", _shard(bytes=None)),
    _manifest("shard_digest_short", _shard(sha256="00")),
    _manifest("file_outside", _file(path="../schema.json")),
    _manifest("file_absolute", _file(path="/etc/hostname")),
    _manifest("file_twice", lambda d: d["files"].append(d["files"][0])),
    _case("schema_other_types", _replaced("schema.json", b'{"name": 7, "features": {}}')),
    _case("schema_deep", _replaced("schema.json", _DEEP)),
    _case("statistics_empty", _replaced("statistics.pb", b"")),
    _case("statistics_noise", _replaced("statistics.pb", b"\xff" * 500)),
    _case(
        "blocks_statistics_noise", _replaced("statistics.pb", b"\x0a\xff\xff\xff\xff\x0f"), dataset="blocks"
    ),
)

CASES = (*_SCHEMAS, *_DATASETS)
