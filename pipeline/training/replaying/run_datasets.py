"""The datasets that a run trained on, found again: where they were, or where they are said to be now.

What counts is the digest in run.json: a dataset that was published anew under the same name is another.
"""

import pathlib
from collections.abc import Mapping, Sequence

from ml_collections import ConfigDict

from pipeline.data.dataset import manifest
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.errors import InputError
from pipeline.training.state.run_record import RunRecord

_DIGITS = 12  # of a digest, that are shown


def of_run(record: RunRecord, *, moved_to: Sequence[str | pathlib.Path] = ()) -> tuple[Dataset, ConfigDict]:
    """The run's dataset, and its config, in which a mixture names its datasets where they are now.

    Args:
      moved_to: directories of datasets that are no longer where they were.

    Raises:
      InputError: a dataset is not there, or is another one; or a directory holds none of the run's.
    """
    config = ConfigDict(record.config)
    digests = _digests(record, config)
    moved = {_digest(directory): str(directory) for directory in moved_to}
    _require_wanted(moved, digests)
    config.mixture = tuple(
        (str(_open(directory, digests[directory], moved).directory), split, weight)
        for directory, split, weight in config.mixture
    )
    return _open(record.dataset, record.dataset_digest, moved), config


def _digests(record: RunRecord, config: ConfigDict) -> dict[str, str]:
    """By directory; empty where a run of an earlier version does not tell it."""
    others = [directory for directory, _, _ in config.mixture]
    known = record.mixture_digests or [""] * len(others)
    return dict(zip(others, known, strict=True)) | {record.dataset: record.dataset_digest}


def _digest(directory: str | pathlib.Path) -> str:
    return manifest.open_dataset(directory).manifest.digest


def _require_wanted(moved: Mapping[str, str], digests: Mapping[str, str]) -> None:
    for digest, directory in moved.items():
        if digest not in digests.values():
            names = " or ".join(_shown(each) for each in dict.fromkeys(digests.values()) if each)
            raise _other(directory, digest, names)


def _open(directory: str, digest: str, moved: Mapping[str, str]) -> Dataset:
    place = pathlib.Path(moved.get(digest, directory))
    if not place.exists():
        raise InputError(
            f"dataset {directory}",
            received="no such directory",
            expected="the dataset that the run trained on",
            action="Name the directory where it is now: --dataset=DIRECTORY.",
        )
    found = manifest.open_dataset(place)
    if digest and found.manifest.digest != digest:
        raise _other(directory, found.manifest.digest, _shown(digest))
    return found


def _other(directory: str, received: str, expected: str) -> InputError:
    return InputError(
        f"dataset {directory}",
        received=f"digest {_shown(received)}",
        expected=f"{expected}, that of the dataset that the run trained on",
        action="Restore that version of the dataset, or name where it is: --dataset=DIRECTORY.",
    )


def _shown(digest: str) -> str:
    return f"{digest[:_DIGITS]}…"
