"""conversion.json: how a dataset was converted, for people.

It varies by run, so the manifest does not list it.
"""

import json
import pathlib
from collections.abc import Mapping

from pipeline.data import ordinary_files, self_digest
from pipeline.data.dataset.manifest import CONVERSION_FILE_NAME
from pipeline.data.errors import InputError

FORMAT = "penstock.conversion/1"


def dumps(document: Mapping) -> str:
    """The content of the file, which carries its own digest."""
    return json.dumps(self_digest.with_digest({"format": FORMAT, **document}), indent=2) + "\n"


def read(directory: pathlib.Path) -> dict:
    """What `directory` says of its conversion, empty where it says nothing; raises InputError if damaged."""
    path = directory / CONVERSION_FILE_NAME
    try:
        document = json.loads(ordinary_files.read_bytes(path))
        if {"format", self_digest.KEY} & set(document):  # earlier versions wrote neither
            self_digest.check(document)
        return dict(document)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"dataset file {path}",
            received=f"other content than was written ({error})",
            expected="what beam_jobs.convert wrote there",
            action="Restore the file from a copy, or delete it: only reports show it.",
        ) from None
