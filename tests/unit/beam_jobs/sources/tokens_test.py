"""Texts become rows of tokens."""

import pathlib

import numpy as np
import pyarrow as pa
import pytest
from absl import flags
from absl.testing import flagsaver

from beam_jobs.sources import flags as source_flags
from beam_jobs.sources.files import parse_input
from beam_jobs.sources.jsonl import JsonLines
from beam_jobs.sources.text import TextFiles
from beam_jobs.sources.tokens import Part, TokenRows, one_a_row, packed, text_runs
from pipeline.base.errors import InputError
from pipeline.data.preprocessing.tokenizers import ByteTokenizer


def documents(*lists: list[int]) -> list[np.ndarray]:
    return [np.array(tokens, np.int32) for tokens in lists]


def test_packed_rows_are_full_and_number_their_documents():
    rows = packed(documents([5, 6, 1], [7, 1], [], [8, 9, 1, 4, 4]), 4)
    assert rows.tokens.tolist() == [[5, 6, 1, 7], [1, 8, 9, 1], [4, 4, 0, 0]]
    assert rows.segments.tolist() == [[1, 1, 1, 2], [1, 2, 2, 2], [1, 1, 0, 0]]
    assert rows.first.tolist() == [0, 1, 3]
    assert rows.begun.tolist() == [2, 1, 0]


def test_one_document_a_row_is_cut_or_padded():
    rows = one_a_row(documents([5, 6, 7], [8], []), 2)
    assert rows.tokens.tolist() == [[5, 6], [8, 0], [0, 0]]
    assert rows.segments.tolist() == [[1, 1], [1, 0], [0, 0]]
    assert rows.begun.tolist() == [1, 1, 0]


def test_no_documents_are_no_rows():
    assert packed([], 4).tokens.shape == one_a_row([], 4).tokens.shape == (0, 4)
    assert [part.tokens.shape for part in packed([], 4).parts(2)] == [(0, 4)]


def test_parts_are_the_same_rows():
    rows = packed(documents([5, 6, 1], [7, 1], [8, 9, 1, 4, 4]), 4)
    first, second = rows.parts(2)
    for name in ("tokens", "segments", "first"):
        assert (np.concatenate([getattr(first, name), getattr(second, name)]) == getattr(rows, name)).all()


# Texts in runs of limited size, of which every character comes once and in order.
TEXTS = ["", "ab", None, "c", "a long text of words", "éééééééé", "d"]


@pytest.mark.parametrize("part_bytes", [4, 5, 7, 8, 100])
def test_every_text_comes_whole_and_in_order(part_bytes):
    found, text = [], ""
    for run in text_runs(pa.array(TEXTS), part_bytes=part_bytes):
        assert sum(len(part.text.encode()) for part in run) <= part_bytes
        for part in run:
            text += part.text
            if part.is_last:
                found.append(text)
                text = ""
    assert found == [text for text in TEXTS if text]


def test_a_long_text_is_cut_before_a_blank():
    assert list(text_runs(pa.array(["ab cd ef"]), part_bytes=4)) == [
        [Part("ab", False)],
        [Part(" cd", False)],
        [Part(" ef", True)],
    ]


# What infer_schema was given, convert need not be given again.


@pytest.fixture
def given(tmp_path: pathlib.Path):
    """A function: flags of a command line, and what a schema remembers → the source of a text file."""
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    inputs = [parse_input(str(tmp_path / "a.txt"))]

    def source(*more: str, remembered: dict | None = None) -> tuple[TokenRows, dict]:
        with flagsaver.flagsaver():
            flags.FLAGS(["test", "--tokenizer=bytes", "--sequence_length=8", *more])
            found = source_flags.source_of(inputs, remembered=remembered)
            return found, source_flags.settings_of(found, inputs)

    return source


def test_what_a_schema_remembers_of_text_is_taken(given):
    _, noted = given("--text_unit=document", "--packing=document", "--text_column=body")
    assert noted == {"text_unit": "document", "packing": "document", "text_column": "body"}
    found, _ = given(remembered=noted)
    assert (found.source.unit, found.packing, found.column) == ("document", "document", "body")
    found, _ = given("--text_unit=line", "--packing=packed", "--text_column=text", remembered=noted)
    assert (found.source.unit, found.packing, found.column) == ("line", "packed", "text")


def test_without_flags_and_a_note_a_document_is_a_line(given):
    for remembered in (None, {}):
        found, noted = given(remembered=remembered)
        assert (found.source.unit, found.packing, found.column) == ("line", "packed", "text")
        assert noted == {"text_unit": "line"}


@pytest.mark.parametrize("wrong", [{"packing": "dense"}, {"text_column": ["a"]}, {"text_unit": "page"}])
def test_a_note_that_cannot_be_is_refused(given, wrong):
    [name] = wrong
    with pytest.raises(InputError, match=f"raw_files, field '{name}'"):
        given(remembered=wrong)


def test_a_row_of_json_without_text_is_told_and_a_file_without_it_is_rejected(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"text": "one"}\n{"text": null}\n{"title": "x"}\n{"text": ""}\n{"text": " "}\n'
    )
    (tmp_path / "b.jsonl").write_text('{"body": "two"}\n{"body": "three"}\n')
    source = TokenRows(source=JsonLines(), tokenizer=ByteTokenizer(), column="text", length=8)
    splits = source.input_splits([parse_input(str(tmp_path / "*.jsonl"))])
    batches = [raw for split in splits for raw in source.read(split)]
    told = [(row.row, row.reason) for raw in batches for row in raw.doubtful]
    assert told == [(row, "no text, so no document") for row in (2, 3, 4, 5)]
    rejected = [(row.row, row.reason) for raw in batches for row in raw.rejected]
    assert rejected == [(row, "no 'text', which holds the text (--text_column)") for row in (1, 2)]


def test_an_encoding_is_refused_for_text_files(given):
    with pytest.raises(InputError, match=r"--encoding: received files of --format=text; .* iconv -f latin1"):
        given("--encoding=latin-1")


@pytest.mark.parametrize("packing", ["packed", "document"])
@pytest.mark.parametrize("most_tokens", [1 << 22, 64])
def test_documents_and_tokens_are_counted_once(tmp_path, packing, most_tokens):
    """Also where a document is longer than what is held at once, and leaves in several parts."""
    texts = ["a", "long " * 100, "b" * 9, "c"]
    (tmp_path / "a.txt").write_text("\n".join(texts))
    source = TokenRows(
        source=TextFiles(),
        tokenizer=ByteTokenizer(),
        column="text",
        length=8,
        packing=packing,
        part_bytes=40,
        most_tokens=most_tokens,
    )
    [split] = source.input_splits([parse_input(str(tmp_path / "a.txt"))])
    counts = [raw.counts for raw in source.read(split)]
    sums = {name: sum(int(each[name].sum()) for each in counts) for name in counts[0]}
    sizes = [min(len(text) + 1, 8 if packing == "document" else 1000) for text in texts]
    assert (sums["documents"], sums["tokens"]) == (4, sum(sizes))
    assert sums["places"] == 8 * sum(len(each["tokens"]) for each in counts)
    assert sums.get("cut") == (2 if packing == "document" else None), "longer than a row with their end"
