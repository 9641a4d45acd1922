"""A serving directory, and exports of plain files to publish there."""

import pathlib
from collections.abc import Callable

import pytest

from pipeline.publishing import publish
from tests.shared import plain_export

AT = "2026-11-01T06:00:00+00:00"

Put = Callable[[str], int]


@pytest.fixture
def serving(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "serving" / "taxi"


@pytest.fixture
def export(tmp_path: pathlib.Path) -> pathlib.Path:
    return plain_export.write(tmp_path / "export")


@pytest.fixture
def put(serving: pathlib.Path, tmp_path: pathlib.Path) -> Put:
    """Publishes an export of its own for a cycle; returns the version."""

    def publish_cycle(cycle: str) -> int:
        export = tmp_path / "exports" / cycle
        if not export.exists():
            plain_export.write(export, {**plain_export.FILES, "assets/cycle": cycle.encode()})
        return publish.publish(export, serving, cycle=cycle, at=AT)

    return publish_cycle


def cycle_in(directory: pathlib.Path, version: int) -> str:
    """Which cycle's bytes a version has."""
    return (directory / str(version) / "assets" / "cycle").read_text()


def names(directory: pathlib.Path) -> set[str]:
    return {path.name for path in directory.iterdir()}
