"""The files that record how a directory was made: conversion.json and export.json.

conversion.json, of a dataset, is for people. It varies by run, so the manifest does not list it. Standard
library only: Beam workers import this file.
"""

import pathlib
from collections.abc import Mapping

from pipeline.base import directories, documents
from pipeline.base.directories import ChangedError
from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import CONVERSION_FILE_NAME

CONVERSION_FORMAT = "penstock.conversion/1"


def dumps_conversion(document: Mapping) -> str:
    """The content of the file, which carries its own digest."""
    return documents.dumps(documents.with_digest({"format": CONVERSION_FORMAT, **document})).decode()


def read_conversion(directory: pathlib.Path) -> dict:
    """Reads conversion.json, empty where `directory` has none; raises InputError if it is damaged."""
    path = directory / CONVERSION_FILE_NAME
    try:
        return documents.read(path, file_format=CONVERSION_FORMAT)
    except FileNotFoundError:
        return {}
    except documents.UNREADABLE as error:
        raise InputError(
            f"dataset file {path}",
            received=f"other content than was written ({error})",
            expected="what beam_jobs.convert wrote there",
            action="Restore the file from a copy, or delete it: only reports show it.",
        ) from None


# --- `export.json`, which lists the files of an exported model, each with its SHA-256.

FORMAT = "penstock.export/1"
FILE_NAME = "export.json"
GOLDEN_EXAMPLES = "golden.tfrecord"  # records for which every copy must repeat the predictions
EXAMPLE_REQUEST = "example_request.json"  # a row of the data, as a request over HTTP

# Names of the signatures of an exported model.
SERVING_DEFAULT = "serving_default"  # takes serialized tf.train.Examples
RAW = "raw"  # takes each input feature by name
MODEL_INPUTS = "model_inputs"  # takes the same, returns what preprocessing makes of it
UNREAD = "unread"  # takes what `raw` does, returns the names of columns whose text could not be read
PREPARED = "prepared"  # takes what `model_inputs` returns
EVALUATED = "evaluated"  # takes what `raw` does, with labels; returns what metrics need, under the same name


def open_export(directory: pathlib.Path) -> dict:
    """The content of `export.json`; raises InputError where it is missing or a file differs from it."""
    path = directory / FILE_NAME
    try:
        document = documents.read(path, file_format=FORMAT)
        files = {str(name): str(content) for name, content in document["files"].items()}
    except OSError:
        raise InputError(
            f"model {directory}",
            received=f"no readable {FILE_NAME} there",
            expected="a directory written by pipeline.export",
            action="Name the directory that `python -m pipeline.export --output=…` wrote.",
        ) from None
    except documents.UNREADABLE as error:
        raise InputError(
            f"model file {path}",
            received=f"other content than was exported ({error!r})",
            expected="what pipeline.export wrote there",
            action="Restore the file from a copy, or export the model again.",
        ) from None
    directories.check_inside(path, directory, files)
    if (directory / EXAMPLE_REQUEST).is_file():
        files.pop(EXAMPLE_REQUEST, None)  # people write other values into it, to ask the model
    _check_files(directory, files)
    return document


def check_new(output: pathlib.Path) -> None:
    if output.exists():
        raise InputError(
            f"export directory {output}",
            received="a path that exists",
            expected="a new directory: an export is never changed",
            action="Choose another --output, or delete that one.",
        )


def _check_files(directory: pathlib.Path, files: Mapping[str, str]) -> None:
    try:
        directories.check(directory, {name: {"sha256": digest} for name, digest in files.items()})
    except ChangedError as error:
        raise InputError(
            f"model file {directory / error.name}",
            received=error.received,
            expected=f"{error.expected}, as exported",
            action="Restore the file from a copy, or export the model again.",
        ) from None
