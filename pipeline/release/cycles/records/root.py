"""Where everything of a retraining is: the folder that --root names."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator

from pipeline.data import held_directory
from pipeline.data.commands import flag_values
from pipeline.data.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Root:
    """Paths below --root. `name` is the model's, as the config calls it."""

    path: pathlib.Path
    name: str

    @property
    def serving(self) -> pathlib.Path:
        """What TensorFlow Serving watches: a folder a version."""
        return self.path / "serving" / self.name

    @property
    def audit(self) -> pathlib.Path:
        return self.path / "audit.jsonl"

    @property
    def hold(self) -> pathlib.Path:
        return self.path / "HOLD"

    @property
    def spans(self) -> pathlib.Path:
        """Datasets of spans, and a receipt beside each."""
        return self.path / "spans"

    @property
    def cycles(self) -> pathlib.Path:
        return self.path / "cycles"

    @property
    def digests(self) -> pathlib.Path:
        """Digests of raw files by size and times, so that they are read once. It may be deleted."""
        return self.path / "cache" / "raw_digests.json"

    def cycle(self, cycle: str) -> pathlib.Path:
        return self.cycles / cycle

    def absolute(self, path: str) -> pathlib.Path:
        """A path of the config, which is relative to the root."""
        return self.path / path


@contextlib.contextmanager
def opened(path: pathlib.Path, *, name: str) -> Iterator[Root]:
    """The root while no other process retrains in it.

    Raises:
      InputError: there is no such folder, or the name cannot be a folder's.
      TryAgainError: another process retrains in it (exit code 75).
    """
    root = existing(path, name=name)
    with held_directory.held(path, thing=f"--root={path}"):
        yield root


def existing(path: pathlib.Path, *, name: str) -> Root:
    """The root, to look at only. Raises as `opened`, but never TryAgainError."""
    if not path.is_dir():
        raise InputError(
            f"--root={path}",
            received="a file" if path.exists() else "no such folder",
            expected="the folder of this retraining, with the raw data and the schema in it",
            action="Create it, or correct the path.",
        )
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise InputError(
            "config.name",
            received=repr(name),
            expected="the name of a folder, such as taxi",
            action="Correct it.",
        )
    return Root(path=flag_values.absolute(path), name=name)
