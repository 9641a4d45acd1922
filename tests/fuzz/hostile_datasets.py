"""Datasets whose manifest or files were changed by somebody who knows the format."""

import hashlib
import json
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

from pipeline.data.dataset.manifest import FILE_NAME
from tests.fuzz.case import Case, Sound, dataset_steps


def _case(name: str, change: Callable[[pathlib.Path], object], *, dataset: str = "rows") -> Case:
    def write(folder: pathlib.Path, sound: Sound) -> None:
        shutil.copytree(sound.dataset(dataset), folder / "dataset")
        change(folder / "dataset")

    return Case(name=f"dataset_{name}", write=write, steps=dataset_steps)


def _manifest(name: str, change: Callable[[Any], Any]) -> Case:
    def rewrite(dataset: pathlib.Path) -> None:
        path = dataset / FILE_NAME
        document = json.loads(path.read_text())
        path.write_text(json.dumps(change(document) or document))

    return _case(f"manifest_{name}", rewrite)


def _top(**fields: object) -> Callable[[Any], None]:
    return lambda document: document.update(fields)


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


def _raw(data: bytes) -> Callable[[pathlib.Path], None]:
    return lambda dataset: (dataset / FILE_NAME).write_bytes(data)


_DEEP = b"[" * 200_000 + b"]" * 200_000
CASES = (
    _case("manifest_directory", _directory),
    _case("manifest_device", _link),
    _case("manifest_empty", _raw(b"")),
    _case("manifest_not_utf8", _raw(b'{"name": "\xff"}')),
    _case("manifest_deep", _raw(_DEEP)),
    _case("manifest_scalar", _raw(b"7")),
    _case("manifest_empty_object", _raw(b"{}")),
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
