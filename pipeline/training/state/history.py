"""history.jsonl: one line of JSON a log point, with a checksum, so that a damaged line is noticed."""

import json
import pathlib
import zlib
from collections.abc import Mapping

from pipeline.data import atomic_files
from pipeline.data.errors import InputError

CHECKSUM = "crc32"  # of the rest of the line; histories of earlier versions have none


def append(path: pathlib.Path, point: Mapping) -> None:
    """Appends the line of a log point."""
    with path.open("a") as file:
        file.write(_line(point))


def keep_up_to(path: pathlib.Path, step: int) -> None:
    """Drops what was logged after `step`, and a last line that a kill cut short.

    Raises:
      InputError: a line is damaged, or that of `step` is missing though there are others.
    """
    points = read(path)
    kept = [point for point in points if point["step"] <= step]
    # What is saved is logged first: so the line of the step that a checkpoint is of is always there.
    if step and points and (not kept or kept[-1]["step"] != step):
        raise _damaged(path, f"no line of step {step:,}, of which there is a checkpoint")
    atomic_files.write_bytes(path, "".join(map(_line, kept)).encode())


def read(path: pathlib.Path) -> list[dict]:
    """The log points of all whole lines; raises InputError where one is damaged."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    points = [_point(path, number, line) for number, line in enumerate(lines, 1)]
    checksums = [point.pop(CHECKSUM, None) for point in points]
    for number, (point, checksum) in enumerate(zip(points, checksums, strict=True), 1):
        if any(checksums) and checksum != _checksum(point):
            raise _damaged(path, f"a line {number:,} with checksum {checksum} in place of {_checksum(point)}")
    return points


def _point(path: pathlib.Path, number: int, line: bytes) -> dict:
    try:
        point = json.loads(line)
        return {**point, "step": int(point["step"])}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(path, f"a line {number:,} that is damaged ({error})") from None


def _line(point: Mapping) -> str:
    return json.dumps({**point, CHECKSUM: _checksum(point)}) + "\n"


def _checksum(point: Mapping) -> int:
    return zlib.crc32(json.dumps(point).encode())


def _damaged(path: pathlib.Path, received: str) -> InputError:
    return InputError(
        f"file {path}",
        received=received,
        expected="the lines that the training run wrote there",
        action="Restore the file from a copy; or delete it: the same pipeline.train command goes on, without "
        "the curves of before.",
    )
