"""Writes files whole or not at all."""

import concurrent.futures
import contextlib
import datetime
import errno
import fcntl
import hashlib
import json
import math
import os
import pathlib
import re
import resource
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import BinaryIO, NamedTuple, TypeVar

from pipeline.base.errors import TryAgainError


def write_bytes(path: str | os.PathLike, data: bytes, *, draft: pathlib.Path | None = None) -> None:
    """Replaces `path` in one step: a reader sees the old or the new content, even if the run is killed.

    Args:
      draft: path of the temporary file, in the same file system; None: beside `path`, as `NAME.tmp`.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = draft or path.with_name(f"{path.name}.tmp")
    try:
        temporary.unlink(missing_ok=True)  # opening a pipe would block, and opening a link would follow it
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:  # the error of a full disk names no file
            error.filename = str(path)
        raise


def write_json(path: str | os.PathLike, document: Mapping) -> None:
    """Replaces `path` in one step with the document; NaN and infinities become null."""
    # repr: a config may hold what JSON cannot, such as a LambdaCallback's function.
    write_bytes(path, (json.dumps(finite(document), indent=2, default=repr) + "\n").encode())


def finite(found: object) -> object:
    """The same with None in place of NaN and infinities, which JSON lacks, in all lists and mappings."""
    if isinstance(found, Mapping):
        return {key: finite(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [finite(value) for value in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found


def synchronise(path: str | os.PathLike) -> None:
    """Returns when the file, or the names in the directory, would survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def absolute(value: str | os.PathLike) -> pathlib.Path:
    """`value` as an absolute path without `..`.

    Links are followed only where it has a `..`, as the system does: TensorFlow shortens `link/..` to nothing.
    """
    path = pathlib.Path(value)
    return path.resolve() if ".." in path.parts else path.absolute()


# --- Reads files that have an end: never waits for a pipe, and never reads a device.


# 1 GiB: from 2 GiB on, one read gives only a part, and adding the rest takes twice the memory.
_AT_ONCE_BYTES = 1 << 30
_OPEN_AHEAD = 16  # files: eight threads may do so at once, and a process may have only a few hundred open
_READ_AHEAD_BYTES = 64 << 10  # 64 KiB
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # never waits for a pipe


class NotOrdinaryError(OSError):
    """Raised where a pipe, a socket or a device stands in place of a file."""

    def __init__(self, path: str | os.PathLike) -> None:
        super().__init__(errno.EINVAL, "not an ordinary file", os.fspath(path))


def read_bytes(path: str | os.PathLike) -> bytes:
    """The content of a file; raises OSError, as opening does, and NotOrdinaryError."""
    return read(path)[0]


def read(path: str | os.PathLike) -> tuple[bytes, os.stat_result]:
    """Reads a file; returns its content and its status before it was read."""
    # `io` makes twice as many system calls: for 10,000 images, these take a hundredth of the time of a
    # conversion.
    descriptor = os.open(path, _FLAGS)
    try:
        return read_open(descriptor, path)
    finally:
        os.close(descriptor)


def read_open(descriptor: int, path: str | os.PathLike) -> tuple[bytes, os.stat_result]:
    """Reads an open file; returns its content and its status before it was read."""
    status = checked(descriptor, path)
    try:
        content = os.read(descriptor, status.st_size + 1) if status.st_size < _AT_ONCE_BYTES else b""
        is_all = len(content) == status.st_size > 0
        return (content if is_all else content + _rest(descriptor)), status
    except OSError as error:
        error.filename = os.fspath(path)
        raise


def read_at(descriptor: int, path: str, size: int, begin: int) -> bytes:
    """Reads `size` bytes of an open file, or fewer at its end; raises an OSError that names the file."""
    try:
        return os.pread(descriptor, size, begin)
    except OSError as error:
        error.filename = path
        raise


def opened_ahead(paths: Sequence[str]) -> Iterator[int]:
    """Yields a descriptor of each file in order, open until the next; raises OSError if one does not open.

    Up to 16 are open at once, and the system is asked to begin reading them: a disk can answer many requests
    at once, and the processor does not fall asleep in between. Files of 4 KiB that were not in memory took 73
    µs each; one by one, 152 µs.
    """
    for first in range(0, len(paths), _OPEN_AHEAD):
        ahead: list[int] = []
        try:
            for path in paths[first : first + _OPEN_AHEAD]:
                ahead.append(os.open(path, _FLAGS))
                if hasattr(os, "posix_fadvise"):  # macOS does not have it
                    with contextlib.suppress(OSError):  # a pipe raises it
                        os.posix_fadvise(ahead[-1], 0, _READ_AHEAD_BYTES, os.POSIX_FADV_WILLNEED)
            while ahead:
                yield ahead[0]
                os.close(ahead.pop(0))
        finally:
            for descriptor in ahead:
                os.close(descriptor)


def opened(path: str | os.PathLike) -> BinaryIO:
    """A file of any size, to be read; raises as `read_bytes` does."""
    descriptor = os.open(path, _FLAGS)
    try:
        checked(descriptor, path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def sha256(path: str | os.PathLike) -> str:
    """Digest of a file of any size, in hexadecimal; raises as `read_bytes` does."""
    with opened(path) as file:
        try:
            return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            error.filename = os.fspath(path)
            raise


def checked(descriptor: int, path: str | os.PathLike) -> os.stat_result:
    """Returns the status of an open file; raises OSError if it is a directory, a pipe or a device."""
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise NotOrdinaryError(path)
    return status


def _rest(descriptor: int) -> bytes:
    """Reads the rest of a file that has grown, that does not report its size, or that is too large for one
    read.
    """
    with open(descriptor, "rb", buffering=0, closefd=False) as file:
        return file.readall()


# --- Temporary files of libraries.


@contextlib.contextmanager
def temporary_files_in(directory: pathlib.Path) -> Iterator[None]:
    """Puts temporary files into a directory that is cleared anyway, because an interrupted process leaves
    some.
    """
    before, tempfile.tempdir = tempfile.tempdir, str(directory)
    try:
        yield
    finally:
        tempfile.tempdir = before


# --- The state of a file, which changes when it is written to, replaced or deleted.


# A file that was changed this shortly before it was looked at may change again and keep the same time.
_SETTLED_NS = 2_000_000_000


class FileState(NamedTuple):
    """The state of a file. It stays equal as long as nobody changes the file, or puts another in its
    place.
    """

    size: int  # bytes
    modified_ns: int  # nanoseconds since 1970
    changed_ns: int  # nanoseconds since 1970; changes even where the time above was set back
    inode: int
    device: int

    def is_settled(self, now_ns: int) -> bool:
        """Returns whether every later change would show. It would not while the file system's clock shows the
        same time.
        """
        return max(self.modified_ns, self.changed_ns) < now_ns - _SETTLED_NS


def file_state(path: str | os.PathLike) -> FileState:
    """The file at a path; raises OSError where there is none."""
    return state_of_status(os.stat(path))  # noqa: PTH116 - pathlib takes longer, and a dataset may have 100,000 files


def state_of_status(status: os.stat_result) -> FileState:
    """Picks the fields of a `FileState` from what os.stat returned."""
    return FileState(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)


# --- Retries: a disk or a network may answer a moment later.


T, Item = TypeVar("T"), TypeVar("Item")

RETRY_WAITS_S = (0.01, 0.04, 0.16, 0.64, 2.56)  # seconds between tries

# Errors that another try would give again.
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)


def retry(read: Callable[[], T], *, wait: Callable[[float], None] = time.sleep) -> T:
    """Returns what `read` returns; raises its OSError where the last try fails too."""
    for seconds in RETRY_WAITS_S:
        try:
            return read()
        except OSError as error:
            if is_final_failure(error):
                raise
            wait(seconds)
    return read()


def retry_naming_file(read: Callable[[], T]) -> T:
    """Retries a `read` whose errors name their file; raises TryAgainError where the last try fails too.

    An error that another try would give again is raised unchanged.
    """
    try:
        return retry(read)
    except OSError as error:
        if is_final_failure(error):
            raise
        raise unreadable(error.filename, error) from None


def one_by_one(read: Callable[[Sequence[Item]], T], items: Sequence[Item]) -> list[T]:
    """Reads all items at once; where that fails, one by one: with 64 items, another might fail at each try.

    Raises as `retry_naming_file` does.
    """
    try:
        return [read(items)]
    except OSError:
        pass
    return [retry_naming_file(lambda: read([item])) for item in items]  # noqa: B023 - called at once


def is_final_failure(error: OSError) -> bool:
    """Returns whether another try would give the same error."""
    return isinstance(error, _FINAL) or error.errno in (errno.ELOOP, errno.EINVAL, errno.ENAMETOOLONG)


def unreadable(path: str, error: OSError) -> TryAgainError:
    return TryAgainError(
        f"dataset file {path}",
        received=f"{error.strerror or error}, after {len(RETRY_WAITS_S) + 1} tries",
        expected="a file that can be read",
        action="Look after the disk or the network, and run the same command again.",
    )


# --- A directory that one process holds; errors name the holder.
#
# The lock is the kernel's, on the directory itself. So nothing is left behind, and a dead process holds
# nothing.


# One line for each lock: `1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF`.
_LOCKS = pathlib.Path("/proc/locks")

_START = 19  # index in /proc/PID/stat, after the name: clock ticks from boot to start


@contextlib.contextmanager
def hold_directory(directory: pathlib.Path, *, thing: str) -> Iterator[None]:
    """Holds a directory that exists while the block runs.

    Raises:
      TryAgainError: another process holds it; `thing` names the directory in the message.
    """
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The process that held it until now may have removed or renamed the directory that we opened.
        if not directory.exists() or directory.stat().st_ino != os.fstat(descriptor).st_ino:
            raise BlockingIOError
    except BlockingIOError:
        holder = _holder(os.fstat(descriptor).st_ino)
        os.close(descriptor)
        raise TryAgainError(
            thing,
            received=f"a directory that {holder} is writing to",
            expected="a directory of its own for each run",
            action="Wait for that run to end, or choose another directory.",
        ) from None
    try:
        yield
    finally:
        os.close(descriptor)


def _holder(inode: int) -> str:
    """Who holds the lock on a file, as far as this machine knows."""
    with contextlib.suppress(OSError, ValueError, IndexError, TypeError):
        for line in _LOCKS.read_text().splitlines():
            _, kind, _, _, pid, file, *_ = line.split()
            if kind == "FLOCK" and int(file.rpartition(":")[2]) == inode and int(pid) > 0:
                return f"process {pid} of host {socket.gethostname()}, running since {_started(pid)},"
    return "another run, of another host or container,"


def _started(pid: str) -> str:
    """Formats when a process was started, to the second."""
    # Fields follow the name, which may hold anything but ends at the last bracket: see proc(5).
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    booted = re.search(r"^btime (\d+)$", pathlib.Path("/proc/stat").read_text(), re.MULTILINE)
    seconds = int(booted[1]) + int(fields[_START]) / os.sysconf("SC_CLK_TCK")
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(" ", timespec="seconds")


# --- Asks about many files: several at a time where answers are slow, else one after the other.
#
# Over the network, or on a disk that has not read its directories yet, a thread waits for every answer. From
# memory, answers come at once: threads would only pass Python's lock around, and take twice the processor
# time.


_IN_A_TURN = 64  # files of one turn, which one thread asks about in order
_AT_ONCE = 8  # turns that run at once
_FIRST_TOGETHER = 32  # so many turns overlap first; then it is measured again whether threads wait
_WAITED_FOR = 1 / 8  # turns overlap if a thread waits for this share of a turn's files, or more
_WAITING = 1 / 2  # turns overlap if a thread waits for this share of a turn's time, or more
_THREAD = getattr(resource, "RUSAGE_THREAD", None)  # only Linux has it


def in_turns(ask: Callable[[Sequence[Item]], T], items: Sequence[Item]) -> Iterator[T]:
    """Calls `ask` with 64 items at a time; yields answers in order. A call that raises ends it."""
    turns = [items[first : first + _IN_A_TURN] for first in range(0, len(items), _IN_A_TURN)]
    done, together = 0, _FIRST_TOGETHER
    while done < len(turns):
        start, before, worked = time.perf_counter(), _waits(), time.thread_time()
        result = ask(turns[done])
        taken, worked = time.perf_counter() - start, time.thread_time() - worked
        # Elapsed time proves nothing: it also passes while other processes have the processor.
        waits = math.inf if _THREAD is None else _waits() - before
        is_waited_for = waits > _WAITED_FOR * _IN_A_TURN and taken - worked > taken * _WAITING
        yield result
        done += 1
        if is_waited_for:
            with concurrent.futures.ThreadPoolExecutor(_AT_ONCE) as pool:
                yield from pool.map(ask, turns[done : done + together])
            # Then one turn is tried alone again: a disk may have read ahead, and no thread waits any more.
            done, together = done + together, 2 * together


def _waits() -> int:
    """Returns how often this thread has waited for something."""
    return resource.getrusage(_THREAD).ru_nvcsw if _THREAD is not None else 0


# --- Files in folders. Links are followed: `os.walk` and globs skip linked folders silently.


def walk(
    folder: str, *, enters: Callable[[str], bool] = lambda path: True, once: bool = False
) -> Iterator[tuple[str, os.stat_result | OSError]]:
    """Yields path and status of each file in `folder` and in those of its folders that `enters` allows.

    A link that leads nowhere comes with its error. Raises an OSError that names the folder, where a folder
    cannot be listed, or leads back to a folder that it is in; if `once`, also where two paths lead to one
    folder.
    """
    yield from _walk(folder, {}, enters, once)


def _walk(
    folder: str, known: dict[str, str], enters: Callable[[str], bool], once: bool
) -> Iterator[tuple[str, os.stat_result | OSError]]:
    real = os.path.realpath(folder)
    if real in known:
        raise OSError(errno.ELOOP, f"the folder {known[real]} again, by way of symbolic links", folder)
    known[real] = folder or "."
    with os.scandir(folder or ".") as found:
        entries = sorted(found, key=lambda entry: (entry.is_symlink(), entry.name))
    for entry in entries:
        path = os.path.join(folder, entry.name)  # noqa: PTH118 - a million of them may be
        try:
            status = entry.stat()
        except OSError as error:
            if entry.is_symlink():
                yield path, error
            elif not isinstance(error, FileNotFoundError):  # otherwise it has vanished meanwhile
                raise
            continue
        if not stat.S_ISDIR(status.st_mode):
            yield path, status
        elif enters(path):
            yield from _walk(path, known, enters, once)
    if not once:
        del known[real]
