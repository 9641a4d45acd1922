"""`export.json`, which lists the files of an exported model, each with its SHA-256.

Standard library only: Beam workers import this file.
"""

import json
import pathlib
from collections.abc import Mapping

from pipeline.data import ordinary_files, self_digest
from pipeline.data.dataset.manifest import check_inside, sha256
from pipeline.data.errors import InputError

FORMAT = "penstock.export/1"
FILE_NAME = "export.json"
GOLDEN_EXAMPLES = "golden.tfrecord"  # records whose predictions every copy must repeat

# Names of the signatures of an exported model.
SERVING_DEFAULT = "serving_default"  # takes serialized tf.train.Examples
RAW = "raw"  # takes each input feature by name
MODEL_INPUTS = "model_inputs"  # takes the same, gives what preprocessing makes of it


def open_export(directory: pathlib.Path) -> dict:
    """The content of `export.json`; raises InputError where it is missing or a file differs from it."""
    path = directory / FILE_NAME
    try:
        document = json.loads(ordinary_files.read_bytes(path))
        self_digest.check(document)
        files = {str(name): str(content) for name, content in document["files"].items()}
    except OSError:
        raise InputError(
            f"model {directory}",
            received=f"no readable {FILE_NAME} there",
            expected="a directory written by pipeline.export",
            action="Name the directory that `python -m pipeline.export --output=…` wrote.",
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"model file {path}",
            received=f"other content than was exported ({error!r})",
            expected="what pipeline.export wrote there",
            action="Restore the file from a copy, or export the model again.",
        ) from None
    check_inside(path, directory, files)
    _check_files(directory, files)
    return document


def check_new(output: pathlib.Path) -> None:
    """Raises InputError where something is there."""
    if output.exists():
        raise InputError(
            f"export directory {output}",
            received="a path that exists",
            expected="a new directory: an export is never changed",
            action="Choose another --output, or delete that one.",
        )


def _check_files(directory: pathlib.Path, files: Mapping[str, str]) -> None:
    for path, expected in files.items():
        found = sha256(directory / path) if (directory / path).is_file() else "no such file"
        if found != expected:
            raise InputError(
                f"model file {directory / path}",
                received=found[:12],
                expected=f"SHA-256 {expected[:12]}…, as exported",
                action="Restore the file from a copy, or export the model again.",
            )
