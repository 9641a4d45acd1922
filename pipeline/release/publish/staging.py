"""A version before it is one: a folder that TensorFlow Serving passes over, whole and on the disk."""

import pathlib
import shutil
from collections.abc import Iterable, Mapping

from pipeline.data import atomic_files
from pipeline.data.dataset import export_manifest
from pipeline.data.errors import InputError
from pipeline.release.publish import publication, versions

PREFIX = ".staging-"


def stage_export(
    export: pathlib.Path,
    staged: pathlib.Path,
    *,
    documents: Mapping[str, bytes],
    version: int,
    cycle: str,
    at: str,
) -> None:
    """Copies the files that the export lists, and `documents` beside them, to the new folder `staged`.

    Raises:
      InputError: the export is not as it was written, or a document has the name of one of its files.
    """
    files = [*export_manifest.open_export(export)["files"], export_manifest.FILE_NAME]
    _check_names(documents, files)
    _copy(export, staged, files)
    export_manifest.open_export(staged)  # it may have changed while it was copied
    for name, content in documents.items():
        atomic_files.write_bytes(staged / name, content)
    _finish(staged, publication.described(staged, version=version, cycle=cycle, at=at))


def stage_again(
    directory: pathlib.Path,
    staged: pathlib.Path,
    *,
    to: int,
    version: int,
    instead_of: int,
    reason: str,
    at: str,
) -> None:
    """Copies the files of the published version `to` to the new folder `staged`, which becomes `version`.

    Raises:
      InputError: the files are not those that were published.
    """
    published = versions.published(directory, to)
    _copy(versions.path_of(directory, to), staged, published["files"])
    publication.check_bytes(staged, published)
    rolled_back = {"from": instead_of, "to": to, "reason": reason}
    document = publication.described(
        staged, version=version, cycle=published["cycle"], at=at, rolled_back=rolled_back
    )
    _finish(staged, document)


def _copy(source: pathlib.Path, target: pathlib.Path, names: Iterable[str]) -> None:
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)


def _finish(staged: pathlib.Path, document: Mapping) -> None:
    """Adds publication.json; then every file, and every name in every folder, is on the disk."""
    atomic_files.write_bytes(staged / publication.FILE_NAME, publication.dumps(document))
    for path in (*staged.rglob("*"), staged):
        atomic_files.synchronise(path)


def _check_names(documents: Mapping[str, bytes], files: Iterable[str]) -> None:
    taken = {*files, publication.FILE_NAME}
    for name in documents:
        if name in taken or pathlib.PurePath(name).name != name or name in ("", ".", ".."):
            raise InputError(
                f"document {name!r}",
                received="the name of a file of the model" if name in taken else "a path",
                expected="a file name of its own, beside the model",
                action="Give it another name.",
            )
