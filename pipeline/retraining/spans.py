"""Finds spans of raw data by a glob, with digests of their files."""

import contextlib
import dataclasses
import errno
import glob
import hashlib
import os
import pathlib
import time
from collections.abc import Callable, Sequence

from pipeline.base import documents, files
from pipeline.base.errors import InputError, TryAgainError

# --- Digests of raw files. A cache keeps them, so that a file is read only once as long as its size and times
# do not change.


class Digests:
    """SHA-256 by path.

    Args:
      path: path of the cache. If it is damaged or missing, that only costs time.
      clock: nanoseconds since 1970.
    """

    def __init__(self, path: pathlib.Path, *, clock: Callable[[], int] = time.time_ns) -> None:
        self._path, self._clock = path, clock
        self._known: dict[str, list] = _load(path)
        self._used: dict[str, list] = {}

    def of(self, file: str) -> str:
        """Returns the SHA-256 in hexadecimal. Raises OSError, as opening does."""
        state = files.file_state(file)
        known = self._known.get(file)
        if known and known[:-1] == list(state):
            self._used[file] = known
            return known[-1]
        now = self._clock()
        digest = files.sha256(file)
        if files.file_state(file) == state and state.is_settled(now):
            self._used[file] = [*state, digest]
        return digest

    def save(self) -> None:
        """Saves the digests that were used, if the disk has room; otherwise they are computed again next
        time.
        """
        if self._used != self._known:
            with contextlib.suppress(OSError):
                documents.write(self._path, self._used)


def _load(path: pathlib.Path) -> dict[str, list]:
    try:
        found = documents.read(path)
        return {file: list(entry) for file, entry in found.items() if file != documents.KEY}
    except documents.UNREADABLE:
        return {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RawSpan:
    """A file or folder of raw data.

    Attributes:
      name: the match of the glob's wildcards; for `date=2026-11-01`, only the value.
      digest: the SHA-256 of the names and contents of all its files.
      content: the SHA-256 of only the contents, which is equal for a copy under another name.
    """

    name: str
    path: pathlib.Path
    files: int
    size: int  # bytes
    digest: str
    content: str


def find(pattern: str, digests: Digests, *, marker: str = "") -> list[RawSpan]:
    """Finds the spans, in the order of their names.

    Args:
      pattern: an absolute glob. Each match is a span.
      marker: the name of a file that every whole folder has; empty: every folder is whole.

    Raises:
      InputError: two matches have one name, or a link leads in a circle.
      TryAgainError: a file cannot be read.
    """
    # pathlib takes no absolute pattern.
    found = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207
    paths = [pathlib.Path(path) for path in found]
    whole = [path for path in paths if not (marker and path.is_dir()) or (path / marker).exists()]
    named = [(_name(pattern, path), path) for path in whole]
    _check_names(named)
    return [_read(name, path, digests) for name, path in sorted(named)]


def _name(pattern: str, path: pathlib.Path) -> str:
    """Returns the match of the pattern's wildcards; if it has none, the last part of the path."""
    parts, patterns = path.parts, pathlib.Path(pattern).parts
    if "**" in patterns or len(parts) != len(patterns):
        return _bare(parts[-1])
    matched = [
        _bare(part)
        for part, wanted in zip(parts, patterns, strict=True)
        if wanted not in (part, glob.escape(part))
    ]
    return "_".join(matched) or _bare(parts[-1])


def _bare(part: str) -> str:
    """Shortens `date=2026-11-01` and `2026-11-01.csv` to 2026-11-01."""
    value = part.rpartition("=")[2] or part
    return value.partition(".")[0] or value


def _check_names(named: Sequence[tuple[str, pathlib.Path]]) -> None:
    paths: dict[str, pathlib.Path] = {}
    for name, path in named:
        if name in (".", ".."):  # ROOT/spans/.. is not a folder of its own
            raise InputError(
                "config.spans.raw",
                received=f"{path}, which is span '{name}'",
                expected="a name that a folder can have",
                action="Rename it.",
            )
        if name in paths:
            raise InputError(
                "config.spans.raw",
                received=f"{paths[name]} and {path}, which are both span '{name}'",
                expected="a name of its own for each span",
                action="Rename one of them, or let the glob match more of the path.",
            )
        paths[name] = path


def _read(name: str, path: pathlib.Path, digests: Digests) -> RawSpan:
    try:
        files = sorted(_files(path))
        found = {os.path.relpath(file, path): digests.of(file) for file in files}
        size = sum(pathlib.Path(file).stat().st_size for file in files)
    except OSError as error:
        loops = error.errno == errno.ELOOP
        raise (InputError if loops else TryAgainError)(
            f"span '{name}'",
            received=f"{error.filename}: {error.strerror}",
            expected="files that this command can read",
            action="Remove the link that leads back."
            if loops
            else "Correct the permissions, or wait until the span is whole.",
        ) from None
    return RawSpan(
        name=name,
        path=path,
        files=len(files),
        size=size,
        digest=_digest(f"{inner}\0{digest}" for inner, digest in found.items()),
        content=_digest(sorted(found.values())),
    )


def _files(path: pathlib.Path) -> list[str]:
    """Returns all files of a span, in all its folders; links to folders are followed."""
    if not path.is_dir():
        return [str(path)]
    return [file for file, _ in files.walk(str(path))]


def _digest(lines: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(os.fsencode(line) + b"\0")
    return digest.hexdigest()
