"""What was compared once is not read again, as long as no file changes."""

import json
import os
import pathlib
import time

import pytest

from pipeline.base import documents
from pipeline.data.dataset.manifest import open_dataset
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.integrity import damage as damage_lib
from pipeline.data.integrity import scan
from pipeline.data.integrity.scan import FORMAT, ScanMemory
from tests.unit.data.reading.id_stream import write

SHARD = "ids-train.tfrecord-00000-of-00002"
HOUR_NS = 3_600_000_000_000


@pytest.fixture
def selection(tmp_path: pathlib.Path) -> Selection:
    """Of 60 rows; the first is damaged."""
    directory = write(tmp_path / "ids", range(60)).directory
    flip(directory, 14)
    return select(open_dataset(directory), "train")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A number for each record whose checksum is compared."""
    compared: list[int] = []
    problem = scan.checksum_problem
    monkeypatch.setattr(
        scan, "checksum_problem", lambda frame, **record: compared.append(1) or problem(frame, **record)
    )
    return compared


def flip(directory: pathlib.Path, byte: int) -> None:
    data = bytearray((directory / SHARD).read_bytes())
    data[byte] ^= 1
    (directory / SHARD).write_bytes(data)


def found(selection: Selection, path: pathlib.Path, *, later_ns: int = HOUR_NS) -> list[int]:
    """Ordinals of damaged records, as a start that is so much later finds them."""
    memory = ScanMemory(path, clock=lambda: time.time_ns() + later_ns)
    _, damage = damage_lib.sound_selection({"train": selection}, budget=5, memory=memory)
    return [record.ordinal for record in damage]


def test_a_second_start_reads_nothing(selection, reads, tmp_path):
    assert found(selection, tmp_path / "scan.json") == [0]
    assert len(reads) == 60
    assert found(selection, tmp_path / "scan.json") == [0]
    assert len(reads) == 60


def test_a_file_that_changes_is_read_again(selection, reads, tmp_path):
    found(selection, tmp_path / "scan.json")
    flip(selection.dataset.directory, -6)
    assert found(selection, tmp_path / "scan.json") == [0, 29]
    assert len(reads) == 120


def test_other_rows_are_read(selection, reads, tmp_path):
    found(selection, tmp_path / "scan.json")
    assert found(select(selection.dataset, "train[50%:]"), tmp_path / "scan.json") == []
    assert len(reads) == 90


def test_files_that_are_as_young_as_the_scan_are_not_remembered(selection, reads, tmp_path):
    for _ in range(2):  # a change in the same tick of the clock would not show
        found(selection, tmp_path / "scan.json", later_ns=0)
    assert len(reads) == 120


@pytest.mark.parametrize("content", [b"", b"{}", b'{"format": "penstock.scan/1", "damaged": {}}', b"[1]"])
def test_a_damaged_memory_costs_only_time(selection, reads, tmp_path, content: bytes):
    (tmp_path / "scan.json").write_bytes(content)
    assert found(selection, tmp_path / "scan.json") == [0]
    assert len(reads) == 60


@pytest.mark.parametrize("damaged", [3, [3], {"key": 3}, {"key": [{"ordinal": 3}]}])
def test_a_memory_of_another_structure_costs_only_time(selection, reads, tmp_path, damaged: object):
    document = documents.with_digest({"format": FORMAT, "damaged": damaged})
    (tmp_path / "scan.json").write_text(json.dumps(document))
    assert found(selection, tmp_path / "scan.json") == [0]
    assert len(reads) == 60


def test_a_pipe_in_place_of_the_memory_is_not_waited_for(selection, reads, tmp_path):
    os.mkfifo(tmp_path / "scan.json")
    assert found(selection, tmp_path / "scan.json") == [0]
    assert len(reads) == 60
