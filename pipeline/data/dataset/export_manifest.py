"""`export.json`, which lists the files of an exported model, each with its SHA-256.

Standard library only: Beam workers import this file.
"""

import json
import pathlib

from pipeline.data.dataset.manifest import sha256
from pipeline.data.errors import InputError

FORMAT = "penstock.export/1"
FILE_NAME = "export.json"

# Names of the signatures of an exported model.
SERVING_DEFAULT = "serving_default"  # takes serialized tf.train.Examples
RAW = "raw"  # takes each input feature by name


def open_export(directory: pathlib.Path) -> dict:
    """The content of `export.json`; raises InputError where it is missing or a file differs from it."""
    try:
        document = json.loads((directory / FILE_NAME).read_bytes())
        files = dict(document["files"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise InputError(
            f"model {directory}",
            received=f"no readable {FILE_NAME} there",
            expected="a directory written by pipeline.export",
            action="Name the directory that `python -m pipeline.export --output=…` wrote.",
        ) from None
    for path, digest in files.items():
        found = sha256(directory / path) if (directory / path).is_file() else "no such file"
        if found != digest:
            raise InputError(
                f"model file {directory / path}",
                received=found[:12],
                expected=f"SHA-256 {digest[:12]}…, as exported",
                action="Restore the file from a copy, or export the model again.",
            )
    return document
