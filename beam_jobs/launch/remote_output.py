"""An output directory on a file system that Beam reaches: filled file by file; the file that vouches for the
rest comes last.
"""

import contextlib
import dataclasses
import pathlib
import posixpath
import tempfile
import uuid
from collections.abc import Iterator, Sequence

from apache_beam.io.filesystems import FileSystems

from beam_jobs.launch.claims import CLAIM_MARK, TEMPORARY, already_published, check_ours, leftovers_in_order
from beam_jobs.sources import files
from pipeline.data.dataset import manifest as manifest_lib


@dataclasses.dataclass(frozen=True, kw_only=True)
class RemoteDestination:
    """Implements `output.Destination`: `directory` is a local one, which `commit` uploads."""

    output: str
    directory: pathlib.Path
    local: pathlib.Path
    shared: str
    _moved: set[str] = dataclasses.field(default_factory=set)

    def move(self, path: str, name: str) -> None:
        # The description of the output is made from a copy of each index and the names of the other files.
        (self.directory / name).write_bytes(files.read_bytes(path) if name.endswith(".index") else b"")
        target = FileSystems.join(self.output, *name.split("/"))
        folder = FileSystems.split(target)[0]
        if "/" in name and FileSystems.get_filesystem(folder).has_dirs() and not FileSystems.exists(folder):
            FileSystems.mkdirs(folder)
        FileSystems.rename([path], [target])
        self._moved.add(name)

    def commit(self, name: str, content: str) -> None:
        _check_unpublished(self.output)
        found = (path for path in self.directory.rglob("*") if path.is_file())
        for path in sorted({path.relative_to(self.directory).as_posix() for path in found} - self._moved):
            target = FileSystems.join(self.output, *path.split("/"))
            files.write_bytes(target, (self.directory / path).read_bytes())
        files.write_bytes(FileSystems.join(self.output, name), content.encode())


@contextlib.contextmanager
def claimed(output: str) -> Iterator[RemoteDestination]:
    """Claims as `destination.claimed` does; raises InputError also if Beam does not reach `output`."""
    files.check_reachable(output, thing=f"--output={output}")
    _check_unpublished(output)
    _clear(output)
    shared = FileSystems.join(output, TEMPORARY, uuid.uuid4().hex)
    try:
        _make_marked(shared, mark=FileSystems.join(output, *CLAIM_MARK.split("/")))
        with tempfile.TemporaryDirectory() as temporary:
            local = pathlib.Path(temporary)
            directory = local / posixpath.basename(output)
            directory.mkdir()
            yield RemoteDestination(output=output, directory=directory, local=local, shared=shared)
    except BaseException:
        _clear(output)
        raise
    temporary = [path for path in _files(output) if path.startswith(f"{TEMPORARY}/")]
    _delete(leftovers_in_order(temporary), output)


def _make_marked(directory: str, *, mark: str) -> None:
    """Makes `directory` exist, even on stores where directories are only parts of names.

    The mark is written first: without it, nobody could tell that the other files are ours.
    """
    has_directories = FileSystems.get_filesystem(directory).has_dirs()
    if has_directories:
        FileSystems.mkdirs(directory)
    files.write_bytes(mark, b"")
    if not has_directories:
        files.write_bytes(directory, b"")


def _check_unpublished(output: str) -> None:
    if FileSystems.exists(FileSystems.join(output, manifest_lib.FILE_NAME)):
        raise already_published(output)


def _clear(output: str) -> None:
    """Removes what a run left; raises InputError if any of it may be somebody else's."""
    found = _files(output)
    check_ours(output, sorted({path.partition("/")[0] for path in found}), is_marked=CLAIM_MARK in found)
    _delete(leftovers_in_order(found), output)


def _files(output: str) -> list[str]:
    """Relative paths of all files below `output`."""
    matched = FileSystems.match([f"{output}/**"])[0].metadata_list
    return [match.path.removeprefix(f"{output}/") for match in matched]


def _delete(paths: Sequence[str], output: str) -> None:
    for path in paths:
        FileSystems.delete([FileSystems.join(output, path)])
