"""The datasets that a run trained on, found again: where they were, or where they are said to be now.

What counts is the digest in run.json: a dataset that was published anew under the same name is another.
"""

import collections
import glob
import pathlib
from collections.abc import Mapping, Sequence

from ml_collections import ConfigDict

from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.window import open_window, together
from pipeline.data.errors import InputError
from pipeline.training.state.run_record import RunRecord

_DIGITS = 12  # of a digest, that are shown

_Moved = Mapping[str, list[str]]  # directories or globs, by digest


def of_run(record: RunRecord, *, moved_to: Sequence[str | pathlib.Path] = ()) -> tuple[Dataset, ConfigDict]:
    """The run's dataset, and its config, in which a mixture names its datasets where they are now.

    Args:
      moved_to: directories of datasets that are no longer where they were, or globs of them.

    Raises:
      InputError: a dataset is not there, or is another one; or a directory holds none of the run's.
    """
    config = ConfigDict(record.config)
    mixed = _mixed(record, config)
    moved = _moved(moved_to, wanted=[digest for _, digest in (*record.datasets, *mixed)])
    found = together([_find(directory, digest, moved)[1] for directory, digest in record.datasets])
    places = [_find(directory, digest, moved)[0] for directory, digest in mixed]
    config.mixture = tuple(
        (place, split, weight) for place, (_, split, weight) in zip(places, config.mixture, strict=True)
    )
    return found, config


def _mixed(record: RunRecord, config: ConfigDict) -> list[tuple[str, str]]:
    """Directory or glob, and digest, of a mixture's datasets; a run of an earlier version tells no digest."""
    others = [directory for directory, _, _ in config.mixture]
    return list(zip(others, record.mixture_digests or [""] * len(others), strict=True))


def _moved(moved_to: Sequence[str | pathlib.Path], *, wanted: Sequence[str]) -> _Moved:
    """What is named, by its digest; where a glob as a whole is none of the run's, each dataset of it."""
    moved = collections.defaultdict(list)
    for pattern in map(str, moved_to):
        named = open_window([pattern])
        each = [named] if named.manifest.digest in wanted else named.published
        for dataset in each:
            if dataset.manifest.digest not in wanted:
                names = " or ".join(dict.fromkeys(_shown(digest) for digest in wanted if digest))
                raise _other(str(dataset.directory), dataset.manifest.digest, names)
            moved[dataset.manifest.digest].append(pattern if dataset.members else str(dataset.directory))
    return moved


def _find(directory: str, digest: str, moved: _Moved) -> tuple[str, Dataset]:
    """Where a dataset is now, and what is there; of several with the same bytes, each is taken once."""
    places = moved.get(digest, [])
    place = places[0] if len(places) == 1 else places.pop(0) if places else directory
    if not glob.has_magic(place) and not pathlib.Path(place).exists():
        raise InputError(
            f"dataset {directory}",
            received="no such directory",
            expected="the dataset that the run trained on",
            action="Name the directory where it is now: --dataset=DIRECTORY.",
        )
    found = open_window([place])
    if digest and found.manifest.digest != digest:
        raise _other(directory, found.manifest.digest, _shown(digest))
    return place, found


def _other(directory: str, received: str, expected: str) -> InputError:
    return InputError(
        f"dataset {directory}",
        received=f"digest {_shown(received)}",
        expected=f"{expected}, that of the dataset that the run trained on",
        action="Restore that version of the dataset, or name where it is: --dataset=DIRECTORY.",
    )


def _shown(digest: str) -> str:
    return f"{digest[:_DIGITS]}…"
