"""An export of plain files: as much of one as copying and checking needs."""

import json
import pathlib
from collections.abc import Mapping

from pipeline.base import documents
from pipeline.base.files import sha256
from pipeline.data.dataset import records

FILES = {"saved_model.pb": b"the graph", "variables/variables.data-00000-of-00001": b"weights " * 50}


def write(directory: pathlib.Path, files: Mapping[str, bytes] = FILES) -> pathlib.Path:
    """Writes the files and export.json, which lists them; returns `directory`."""
    for name, content in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
    return listed(directory)


def listed(directory: pathlib.Path) -> pathlib.Path:
    """Lists the files of a directory in its export.json; returns the directory."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    files = {path.relative_to(directory).as_posix(): sha256(path) for path in paths}
    document = documents.with_digest({"format": records.FORMAT, "files": files})
    (directory / records.FILE_NAME).write_text(json.dumps(document))
    return directory
