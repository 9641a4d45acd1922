"""The generated pages are what the code says now, and a person finds each message by its first words."""

import pathlib
import random
import re
import subprocess
from collections.abc import Callable

import pytest

from beam_jobs.conversion import plan as conversion_plan
from beam_jobs.sources import files
from pipeline.base.errors import InputError, unknown_name
from pipeline.data.dataset import foreign, window
from pipeline.data.schema import schema
from pipeline.training.launch import grid
from tests.house.docs import documents, messages, reference
from tests.house.imports import HOUSE

GLOB = "dataset …: received a glob that matches no directory"
SEED = 41
DRAWN = 60
_FIRST_CELL = re.compile(r"^\| (`+) ?(.*?) ?\1 \|", re.MULTILINE)
# A text in the code after `received=`, up to what a run fills in; read without the parser of messages.py.
_RECEIVED = re.compile(r"\breceived=f?\"([^\"{}\\]{8,})[\"{]")


def test_no_page_is_stale(warm_python: pathlib.Path):
    command = [warm_python, "-m", "tests.house.docs.reference", "--check"]
    result = subprocess.run(command, cwd=documents.ROOT, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, ""), result.stderr


def rows() -> list[str]:
    """What the lines of the page begin with."""
    return [
        cell.replace("\\|", "|") for _, cell in _FIRST_CELL.findall(documents.read(reference.TROUBLESHOOTING))
    ]


def test_messages_drawn_by_seed_are_found_by_their_first_words():
    texts = {text.strip() for path in HOUSE.product for text in _RECEIVED.findall(HOUSE.texts[path])}
    drawn = random.Random(SEED).sample(sorted(texts), DRAWN)
    page = "\n".join(rows())
    assert not (missing := [text for text in drawn if " ".join(text.split()) not in page]), missing


def of_nowhere(directory: pathlib.Path) -> pathlib.Path:
    return directory / "nowhere"


@pytest.mark.parametrize(
    ("raises", "begins"),
    [
        (lambda path: schema.load(path), "schema file …: received …"),
        (lambda path: files.list_files(files.parse_input(str(path))), "--input=…: received no file there"),
        (lambda path: window.open_window([f"{path}*"]), GLOB),
        (lambda path: foreign.open_files([], schema=None), "TFRecord files: received none"),
        (lambda path: grid.points("nonsense"), "--sweep: received …"),
        (lambda path: conversion_plan.parse_fractions("train=2"), "--splits: received …"),
    ],
)  # fmt: skip
def test_a_message_that_is_raised_is_found(raises: Callable, begins: str, tmp_path: pathlib.Path):
    with pytest.raises(InputError) as raised:
        raises(of_nowhere(tmp_path))
    line = f"{raised.value.thing}: received {raised.value.received}"
    found = [row for row in rows() if messages.pattern(row).fullmatch(line)]
    assert begins in found, (line, found)


def test_a_line_that_no_code_raises_is_not_found():
    error = unknown_name("made-up thing", "made-up name", ["one"], otherwise="Nothing.")
    line = f"{error.thing}: received {error.received}"
    assert not [
        row for row in rows() if row.strip("…: ") != "received" and messages.pattern(row).fullmatch(line)
    ]
