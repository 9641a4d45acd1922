"""A directory appears whole: it is staged, its files are hashed, the manifest comes last, then it is renamed.

Checkpoints, exports, published versions and copied runs are written this way:

    with staged(parent / ".name.staging") as folder:
        …                                                        # writes files
        commit(folder, "manifest.json", content(listed(folder)))  # all is on the disk, the manifest last
        rename(folder, parent / "name")

A kill at any moment leaves the old state or the new one. It may leave a folder beside it, under a name that
readers skip; the next writer there removes it.
"""

import contextlib
import errno
import functools
import os
import pathlib
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Set

from pipeline.base import files as files_lib
from pipeline.base.errors import InputError

Files = Mapping[str, Mapping[str, object]]  # `bytes` and `sha256` by the path within the directory


class ChangedError(Exception):
    """Raised where a file is not the one that a manifest lists."""

    def __init__(self, name: str, *, received: str, expected: str) -> None:
        super().__init__(f"{name}: {received} in place of {expected}")
        self.name, self.received, self.expected = name, received, expected


@contextlib.contextmanager
def staged(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """An empty directory; if the block fails, it is gone. What a killed run left in it is deleted first."""
    path.mkdir(parents=True, exist_ok=True)
    for left in path.iterdir():
        erase(left)
    try:
        yield path
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


def listed(directory: pathlib.Path) -> dict[str, dict[str, object]]:
    """Size and SHA-256 of every file in the directory and its folders, sorted by path."""
    return {
        path.relative_to(directory).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": files_lib.sha256(path),
        }
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def commit(
    directory: pathlib.Path,
    name: str,
    content: bytes,
    *,
    draft: pathlib.Path | None = None,
    apart: Collection[str] = (),
) -> None:
    """Writes the manifest to the disk, after all files that it names are there.

    Args:
      draft: where the manifest is written before it gets its name; None: beside it.
      apart: names in the directory that the manifest does not list.
    """
    synchronise(directory, apart=apart)
    files_lib.write_bytes(directory / name, content, draft=draft)
    files_lib.synchronise(directory)


def synchronise(directory: pathlib.Path, *, apart: Collection[str] = ()) -> None:
    """Returns when every file, and every name in every folder, would survive a power cut."""
    for path in (*directory.rglob("*"), directory):
        is_apart = path != directory and path.relative_to(directory).parts[0] in apart
        if not is_apart and (path.is_file() or path.is_dir()):
            files_lib.synchronise(path)


def rename(source: pathlib.Path, target: pathlib.Path) -> None:
    """Renames a directory for good; raises OSError where a directory with files already has that name."""
    source.rename(target)  # never replaces a directory that holds files: rename(2)
    for folder in {source.parent, target.parent}:
        files_lib.synchronise(folder)


def remove(path: pathlib.Path, *, under: pathlib.Path) -> None:
    """Deletes a directory after renaming it to `under`, a name that readers skip, so that half of it is never
    taken for a whole.
    """
    rename(path, under)
    shutil.rmtree(under)


def erase(path: pathlib.Path) -> None:
    """Deletes what a killed run left, whatever it is."""
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def check(directory: pathlib.Path, files: Files, *, sizes_alone: bool = False) -> None:
    """Raises ChangedError where a file is missing, or has another size or other bytes than are listed."""
    for name, listed in files.items():
        try:
            size = (directory / name).stat().st_size
            if size != listed.get("bytes", size):
                raise ChangedError(name, received=f"{size:,} bytes", expected=f"{listed['bytes']:,} bytes")
            found = listed["sha256"] if sizes_alone else files_lib.sha256(directory / name)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError | NotADirectoryError)
            received = "no such file" if missing else f"what cannot be read ({error.strerror})"
            raise ChangedError(name, received=received, expected=_digest(listed["sha256"])) from None
        if found != listed["sha256"]:
            raise ChangedError(name, received=_digest(found), expected=_digest(listed["sha256"]))


def check_inside(manifest: pathlib.Path, directory: pathlib.Path, names: Iterable[str]) -> None:
    """Raises InputError where a name that the file `manifest` lists leads out of `directory`."""
    root = pathlib.Path(os.path.realpath(directory))
    is_in_root = functools.lru_cache(lambda folder: not _leads_out(root / folder, root))
    # Checking each of 200,000 files, or resolving its path, takes many times as long.
    links = functools.lru_cache(lambda folder: _links(root / folder))
    for name in names:
        folder, _, file = name.rpartition("/")
        is_plain = file and _is_path(name) and not name.startswith("/") and ".." not in name.split("/")
        if (
            not is_plain
            or not is_in_root(folder)
            or (file in links(folder) and _leads_out(root / name, root))
        ):
            raise InputError(
                f"manifest {manifest}",
                received=f"a file {name!r} outside of the directory",
                expected="files of this directory alone",
                action="Do not trust it: restore it from a copy, or make it again.",
            )


def _links(folder: pathlib.Path) -> Set[str]:
    """Names of the symbolic links in a folder."""

    def scan() -> set[str]:
        with os.scandir(folder) as entries:
            return {entry.name for entry in entries if entry.is_symlink()}

    try:
        return files_lib.retry_naming_file(scan)
    except OSError as error:
        if isinstance(error, FileNotFoundError | NotADirectoryError) or error.errno == errno.ELOOP:
            return set()  # the check of its files reports it
        raise


def _leads_out(link: pathlib.Path, root: pathlib.Path) -> bool:
    # `resolve` is not used: it raises for links in a circle.
    return not pathlib.Path(os.path.realpath(link)).is_relative_to(root)


def _is_path(name: str) -> bool:
    """Returns whether a file can have this name: JSON can also hold what is not valid text."""
    return "\0" not in name and (name.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in name))


def _digest(sha256: object) -> str:
    return f"SHA-256 {str(sha256)[:12]}…"
