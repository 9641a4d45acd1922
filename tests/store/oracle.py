"""What a place holds, by plain requests to the JSON API, and whether all that can be loaded is whole."""

import hashlib
import json
import os
import pathlib
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator

from pipeline.base import documents
from tests.store import emulator

GRAPH, MARKER = "saved_model.pb", "publication.json"


def listed(prefix: str) -> dict[str, str]:
    """The generation of each object, by its name below the prefix."""
    quoted = urllib.parse.quote(f"{prefix}/", safe="")
    with urllib.request.urlopen(f"{_api('storage/v1')}?prefix={quoted}") as answer:
        items = json.load(answer).get("items", [])
    return {item["name"].removeprefix(f"{prefix}/"): item["generation"] for item in items}


def content(prefix: str, name: str) -> bytes:
    """Raises FileNotFoundError."""
    quoted = urllib.parse.quote(f"{prefix}/{name}", safe="")
    try:
        with urllib.request.urlopen(f"{_api('download/storage/v1')}/{quoted}?alt=media") as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        raise FileNotFoundError(name) from error


def clear() -> None:
    """Empties the bucket: the emulator writes down all it has at each request."""
    urllib.request.urlopen(f"{os.environ['STORAGE_EMULATOR_HOST']}/wipe?keep-buckets=1").close()


def loadable(names: dict[str, str]) -> list[int]:
    """The numbers under which TensorFlow Serving could load a model."""
    return sorted(int(name.split("/")[0]) for name in names if name.endswith(f"/{GRAPH}") and name[0] != ".")


def faults_of(prefix: str, number: int, names: dict[str, str]) -> Iterator[str]:
    """What is incomplete or wrong of a version, as `names` listed it."""
    if f"{number}/{MARKER}" not in names:
        yield f"version {number} can be loaded, and has no {MARKER}"
        return
    document = json.loads(content(prefix, f"{number}/{MARKER}"))
    documents.check(document)
    for name, said in document["files"].items():
        if f"{number}/{name}" not in names:
            yield f"version {number} can be loaded, and lacks {name}"
        elif hashlib.sha256(content(prefix, f"{number}/{name}")).hexdigest() != said["sha256"]:
            yield f"version {number}: {name} has other bytes than were published"


def faults(prefix: str) -> list[str]:
    """Of every version that could be loaded while nobody writes."""
    names = listed(prefix)
    return [fault for number in loadable(names) for fault in faults_of(prefix, number, names)]


def unlike(prefix: str, directory: pathlib.Path) -> list[str]:
    """Names of objects and files that differ between a place and the versions of a serving directory."""
    here = {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.relative_to(directory).parts[0].isdigit()
    }
    there = {name: content(prefix, name) for name in listed(prefix)}
    return sorted(name for name in {*here, *there} if here.get(name) != there.get(name))


def _api(path: str) -> str:
    return f"{os.environ['STORAGE_EMULATOR_HOST']}/{path}/b/{emulator.BUCKET}/o"
