"""Files that are not what their name says, and things that are no files: pipes, devices, loops, odd names."""

import gzip
import os
import pathlib
from collections.abc import Callable

from tests.soak import samples
from tests.soak.damaged import PICTURES, Hostile, raw_commands
from tests.soak.samples import write_pictures

Write = Callable[[pathlib.Path], object]


def _case(name: str, write: Write, path: str, *, schema: str = "", source: tuple[str, ...] = ()) -> Hostile:
    return Hostile(
        name=f"files/{name}",
        write=lambda folder, sound: write(folder),
        commands=raw_commands(path, schema=schema or path, source=source),
    )


def _named(name: str, path: str, data: bytes) -> Hostile:
    return _case(name, lambda folder: (folder / path).write_bytes(data), path)


def _truncated() -> tuple[Hostile, ...]:
    packed = [name for name in samples.FILES if name.count(".") == 2]
    return tuple(
        _named(f"truncated_{name}", name, samples.content(name)[: len(samples.content(name)) * 2 // 3])
        for name in packed
    )


def _misnamed() -> tuple[Hostile, ...]:
    plain, packed = samples.content("data.csv"), samples.content("data.csv.gz")
    return (
        _named("plain_as_gz", "data.csv.gz", plain),
        _named("plain_as_bz2", "data.csv.bz2", plain),
        _named("plain_as_zst", "data.csv.zst", plain),
        _named("gz_as_plain", "data.csv", packed),
        _named("gz_as_bz2", "data.csv.bz2", packed),
        _named("gz_as_zst", "data.jsonl.zst", packed),
        _named("gz_as_jsonl", "data.jsonl", gzip.compress(samples.content("data.jsonl"))),
        _named("gz_twice", "data.csv.gz", gzip.compress(packed)),
        _named("gz_with_trash", "data.csv.gz", packed + b"trash behind"),
        _named("gz_of_two_members", "data.csv.gz", packed + packed),
        _named("gz_empty", "data.csv.gz", b""),
        _named("parquet_as_csv", "data.csv", samples.content("data.parquet")),
        _named("avro_as_jsonl", "data.jsonl", samples.content("data.avro")),
        _named("csv_as_tfrecord", "data.tfrecord", plain),
        _named("picture_as_csv", "data.csv", samples.picture(0, "png")),
    )


def _loop(folder: pathlib.Path) -> None:
    (folder / "data.csv").symlink_to("data.csv")


def _dangling(folder: pathlib.Path) -> None:
    (folder / "data.csv").symlink_to("nowhere.csv")


def _device(device: str) -> Write:
    return lambda folder: (folder / "data.csv").symlink_to(device)


def _bytes_name(folder: pathlib.Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / os.fsdecode(b"caf\xe9.csv")).write_bytes(samples.content("data.csv"))


def _no_entry(folder: pathlib.Path) -> None:
    (folder / "data.csv").mkdir()


def _picture(name: str, change: Write) -> Hostile:
    def write(folder: pathlib.Path) -> None:
        write_pictures(folder)
        change(folder / PICTURES)

    return _case(name, write, PICTURES)


def _bytes_class(folder: pathlib.Path) -> None:
    place = folder / os.fsdecode(b"caf\xe9")
    place.mkdir()
    (place / "1.png").write_bytes(samples.picture(1, "png"))


def _put(path: str, data: bytes) -> Write:
    return lambda folder: (folder / path).write_bytes(data)


def _control_name(folder: pathlib.Path) -> None:
    (folder / "cat" / "a\nerror: b\x1b[2J.png").write_bytes(samples.picture(1, "png"))


_SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>'
CASES = (
    *_truncated(),
    *_misnamed(),
    _case("pipe", lambda folder: os.mkfifo(folder / "data.csv"), "data.csv"),
    _case("symlink_loop", _loop, "data.csv"),
    _case("symlink_dangling", _dangling, "data.csv"),
    _case("device_zero", _device("/dev/zero"), "data.csv"),
    _case("device_urandom", _device("/dev/urandom"), "data.csv"),
    _case("device_null", _device("/dev/null"), "data.csv"),
    _case("memory_of_process", _device("/proc/self/mem"), "data.csv"),
    _case("directory_as_csv", _no_entry, "data.csv"),
    _case("name_not_utf8", _bytes_name, "data", schema="data.csv", source=("--format=csv",)),
    _picture("class_not_utf8", _bytes_class),
    _picture("picture_pipe", lambda folder: os.mkfifo(folder / "cat" / "pipe.png")),
    _picture("picture_device", lambda folder: (folder / "cat" / "zero.png").symlink_to("/dev/zero")),
    _picture("picture_loop", lambda folder: (folder / "cat" / "loop.png").symlink_to("loop.png")),
    _picture("picture_folder_loop", lambda folder: (folder / "cat" / "again").symlink_to(folder)),
    _picture("picture_empty", _put("cat/empty.png", b"")),
    _picture("picture_svg", _put("cat/drawing.png", _SVG)),
    _picture("picture_script", _put("cat/run.png", b"#!/bin/sh\ntouch /tmp/owned\n")),
    _picture("picture_zip", _put("cat/zip.png", b"PK\x03\x04" + bytes(60))),
    _picture("picture_name_controls", _control_name),
    _picture("class_dots", lambda folder: (folder / "...").mkdir()),
)
