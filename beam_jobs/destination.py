"""Where a dataset goes: a local directory, or one that Beam's file systems reach, such as gs://.

A remote directory is filled in the same order as a local one, with the manifest last, but an object store has
no locks: two runs that start at once into one directory are only noticed when the second finds a manifest.
"""

import contextlib
import dataclasses
import pathlib
import posixpath
import tempfile
import uuid
from collections.abc import Iterator

from apache_beam.io.filesystems import FileSystems

from beam_jobs import claim, commit
from pipeline.data import manifest as manifest_lib
from pipeline.data.errors import InputError
from pipeline.data.manifest import Manifest

_UNCOMPRESSED = "uncompressed"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workspace:
    """Temporary directories of one run: the launcher's own and, the same if local, the workers'."""

    local: pathlib.Path
    shared: str


def is_remote(output: str) -> bool:
    return "://" in output


@contextlib.contextmanager
def claimed(output: str) -> Iterator[Workspace]:
    """Claims `output`; if the block fails, leaves no trace. Raises InputError if something is there."""
    if not is_remote(output):
        with claim.claimed(pathlib.Path(output)) as directory:
            yield Workspace(local=directory, shared=str(directory))
        return
    _check_reachable(output)
    _check_unpublished(output)
    _clear(output)
    shared = FileSystems.join(output, claim.TEMPORARY, uuid.uuid4().hex)
    _mark(shared)
    try:
        with tempfile.TemporaryDirectory() as local:
            yield Workspace(local=pathlib.Path(local), shared=shared)
    except BaseException:
        _clear(output)
        raise
    _delete([path for path in _files(output) if path.startswith(f"{claim.TEMPORARY}/")], output)


def publish(output: str, workspace: Workspace, **described: object) -> Manifest:
    """`commit.publish` wherever `output` is; `described` are its keyword arguments."""
    if not is_remote(output):
        return commit.publish(pathlib.Path(output), workspace.local, **described)
    here = workspace.local / posixpath.basename(output)
    here.mkdir()
    moved: set[str] = set()

    def move(path: str, name: str) -> None:
        # What describes the dataset is made here, from a copy of each index and the names of the shards.
        (here / name).write_bytes(_content(path) if name.endswith(".index") else b"")
        FileSystems.rename([path], [FileSystems.join(output, name)])
        moved.add(name)

    manifest = commit.publish(here, workspace.local, move=move, **described)
    _check_unpublished(output)
    names = {str(path.relative_to(here)) for path in here.rglob("*") if path.is_file()} - moved
    # The name that vouches for all others goes last.
    for name in sorted(names, key=lambda name: (name == manifest_lib.FILE_NAME, name)):
        _upload((here / name).read_bytes(), FileSystems.join(output, *name.split("/")))
    return manifest


def _mark(directory: str) -> None:
    """Makes `directory` exist, also where directories are only parts of names."""
    if FileSystems.get_filesystem(directory).has_dirs():
        FileSystems.mkdirs(directory)
    else:
        _upload(b"", directory)


def _content(path: str) -> bytes:
    with FileSystems.open(path, compression_type=_UNCOMPRESSED) as file:
        return file.read()


def _upload(content: bytes, path: str) -> None:
    with FileSystems.create(path, compression_type=_UNCOMPRESSED) as file:
        file.write(content)


def _check_reachable(output: str) -> None:
    try:
        FileSystems.get_filesystem(output)
    except ValueError as error:  # no such file system, or what it needs is not installed
        raise InputError(
            f"--output={output}",
            received=str(error),
            expected="a local directory, or a location that Beam reaches",
            action="For gs://: pip install -r requirements-gcp.txt.",
        ) from None


def _check_unpublished(output: str) -> None:
    if FileSystems.exists(FileSystems.join(output, manifest_lib.FILE_NAME)):
        raise claim.already_published(output)


def _clear(output: str) -> None:
    """Removes what a run left; raises InputError if any of it may be somebody else's."""
    found = _files(output)
    claim.check_ours(output, sorted({path.partition("/")[0] for path in found}))
    # The mark that these leftovers are ours goes last.
    _delete(sorted(found, key=lambda path: path.startswith(claim.TEMPORARY)), output)


def _files(output: str) -> list[str]:
    """Relative paths of all files below `output`."""
    matched = FileSystems.match([f"{output}/**"])[0].metadata_list
    return [match.path.removeprefix(f"{output}/") for match in matched]


def _delete(paths: list[str], output: str) -> None:
    for path in paths:
        FileSystems.delete([FileSystems.join(output, path)])
