"""manifest.json of a checkpoint: names every file with its size and SHA-256. It is written last.

It also says of which run the checkpoint is, at which step, and with which metrics.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping

from pipeline.data import atomic_files, ordinary_files, self_digest
from pipeline.data.dataset.manifest import sha256
from pipeline.data.errors import InputError

FILE_NAME = "manifest.json"
FORMAT = "penstock.checkpoint/1"


class DamagedError(Exception):
    """Says which file of a checkpoint is not what was written, in a few words."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a checkpoint says of itself."""

    step: int
    saved: str  # ISO 8601, UTC
    run: Mapping[str, object]  # of which run: see identity.py
    metrics: Mapping[str, float]  # known at its step, such as val_loss; empty where no epoch ends
    variables: Mapping[str, str]  # path of the variable by its name in TensorFlow's files
    files: Mapping[str, Mapping[str, object]] = dataclasses.field(default_factory=dict)  # bytes, sha256


def write(directory: pathlib.Path, manifest: Manifest) -> None:
    """Writes the manifest of all files in `directory`; they, it and the directory are then on the disk."""
    paths = sorted(path for path in directory.iterdir() if path.is_file())
    files = {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in paths}
    document = {"format": FORMAT, **dataclasses.asdict(manifest), "files": files}
    path = directory / FILE_NAME
    path.write_bytes(_dumped(self_digest.with_digest(document)))
    for each in (*paths, path, directory):
        atomic_files.synchronise(each)


def read(directory: pathlib.Path) -> Manifest:
    """The manifest alone.

    Raises:
      DamagedError: it is missing, or not as it was written.
      InputError: it is of a format that this version does not know.
    """
    name = f"{directory.name}/{FILE_NAME}"
    try:
        content = ordinary_files.read_bytes(directory / FILE_NAME)
        document = json.loads(content)
        self_digest.check(document)
        if content != _dumped(document):  # a space, for one, is in no digest
            raise ValueError(f"{len(content):,} bytes in place of {len(_dumped(document)):,}, or others")
    except FileNotFoundError:
        raise DamagedError(f"{name}: missing") from None
    except OSError as error:
        raise DamagedError(f"{name}: {_unreadable(error)}") from None
    except (ValueError, AttributeError, RecursionError) as error:
        raise DamagedError(f"{name}: not as it was written ({error})") from None
    if document["format"] != FORMAT:
        raise InputError(
            f"checkpoint {directory}",
            received=f"format {document['format']}",
            expected=FORMAT,
            action="Use the version of Penstock that wrote it.",
        )
    return Manifest(**{field.name: document[field.name] for field in dataclasses.fields(Manifest)})


def check(directory: pathlib.Path) -> Manifest:
    """The manifest, once all files are found to be as it says. They are read once.

    Raises:
      DamagedError, InputError: as `read`; and a file is missing, shorter, longer or has other bytes.
    """
    manifest = read(directory)
    for name, written in manifest.files.items():
        problem = _problem(directory / name, written)
        if problem:
            raise DamagedError(f"{directory.name}/{name}: {problem}")
    return manifest


def _dumped(document: Mapping) -> bytes:
    return (json.dumps(document, indent=1) + "\n").encode()


def _problem(path: pathlib.Path, written: Mapping) -> str:
    try:
        size = path.stat().st_size
        if size != written["bytes"]:
            return f"{size:,} bytes in place of {written['bytes']:,}"
        found = sha256(path)
    except OSError as error:
        return "missing" if isinstance(error, FileNotFoundError) else _unreadable(error)
    wanted = written["sha256"]
    return "" if found == wanted else f"SHA-256 {found[:12]}… in place of {wanted[:12]}…"


def _unreadable(error: OSError) -> str:
    return f"cannot be read ({error.strerror})"
