"""Compares what two runs published, and publishes again what a test has changed."""

import dataclasses
import filecmp
import hashlib
import pathlib
from collections.abc import Mapping

from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.dataset.manifest import File


def differences(one: pathlib.Path, other: pathlib.Path) -> list[str]:
    """Paths of files that are not the same in both datasets, but for the record of how each was made."""
    found = (path.relative_to(root) for root in (one, other) for path in root.rglob("*") if path.is_file())
    names = sorted({str(path) for path in found} - {"conversion.json"})
    _, different, unreadable = filecmp.cmpfiles(one, other, names, shallow=False)
    return different + unreadable


def republish(directory: pathlib.Path, contents: Mapping[str, bytes]) -> None:
    """Files with other contents, in a dataset whose manifest says so."""
    manifest = manifest_lib.load(directory)
    files = tuple(file for file in manifest.files if file.path not in contents)
    for name, content in contents.items():
        (directory / name).unlink()
        (directory / name).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        files = (*files, File(path=name, bytes=len(content), sha256=digest))
    text = manifest_lib.dumps(dataclasses.replace(manifest, files=files))
    (directory / manifest_lib.FILE_NAME).write_text(text)
