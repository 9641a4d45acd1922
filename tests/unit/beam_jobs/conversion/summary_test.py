"""What convert says at its end: texts are counted, and a split with another share than was asked is named."""

import pathlib
import types

import pytest

from beam_jobs.checks.anomalies import Policy
from beam_jobs.checks.validate import Rules
from beam_jobs.conversion import plan, summary
from beam_jobs.conversion.job import Conversion, convert
from beam_jobs.conversion.summary import Published
from beam_jobs.launch.run import Run
from beam_jobs.schema.proposal import propose_from
from beam_jobs.sources.source import Input
from beam_jobs.sources.text import TextFiles
from beam_jobs.sources.tokens import TokenRows
from pipeline.data.dataset import records
from pipeline.data.preprocessing.tokenizers import ByteTokenizer


def published(rows: dict[str, int], **more) -> Published:
    shard = types.SimpleNamespace(bytes=1_000_000)
    total = sum(rows.values())
    manifest = types.SimpleNamespace(
        rows=rows.get,
        records=rows.get,
        splits={split: [shard] for split in rows},
        digest="d",
        rows_read=total,
        rows_rejected=0,
        rows_written=total,
    )
    return Published(manifest=manifest, rejected_reasons={}, anomalies=(), notes_of_rows={}, **more)


def lines(given: Published) -> list[str]:
    return summary.text(summary.to_json(given, "out", seconds=2.0)).splitlines()


def test_texts_have_documents_tokens_and_padding():
    texts = {
        "train": {"documents": 243, "tokens": 900, "places": 1_000},
        "test": {"documents": 13, "tokens": 40, "places": 40},
    }
    found = lines(published({"train": 100, "test": 4}, texts=texts))
    assert [line.split() for line in found[:3]] == [
        ["split", "rows", "documents", "tokens", "padding", "shards", "MB"],
        ["train", "100", "243", "900", "10.0%", "1", "1.0"],
        ["test", "4", "13", "40", "0.0%", "1", "1.0"],
    ]
    assert found[3] == "256 documents read, 256 written in 104 rows, 0 rejected"


def test_documents_that_are_cut_are_told():
    texts = {
        "train": {"documents": 200, "tokens": 900, "places": 1_000, "cut": 7},
        "test": {"documents": 50, "tokens": 40, "places": 40, "cut": 0},
    }
    told = [line for line in lines(published({"train": 200, "test": 50}, texts=texts)) if "warning" in line]
    assert len(told) == 1
    assert told[0].startswith(
        "warning: 7 of 250 documents are longer than a row, and cut after its last token"
    )


def test_a_limit_on_rejected_texts_counts_documents(tmp_path: pathlib.Path):
    """2 of 42 documents are a twentieth of them; of the rows that hold them, they would be half."""
    (tmp_path / "a.txt").write_bytes(b"one two\n" * 40 + b"\xff\n" * 2)
    source = TokenRows(source=TextFiles(), tokenizer=ByteTokenizer(), column="text", length=200)
    inputs = [Input(location=str(tmp_path / "a.txt"), split="train")]
    schema = propose_from(source, inputs, max_rows=100).schema
    conversion = Conversion(
        source=source,
        schema=schema,
        plan=plan.make_plan(inputs, source, schema, shard_bytes=1 << 20),
        rules=Rules(policy=Policy()),
        run=Run(runner="FnApiRunner", beam_flags=(), max_rejected_fraction=0.05),
        command="",
    )
    found = summary.text(convert(conversion, output=str(tmp_path / "out")))
    assert "42 documents read, 40 written in 2 rows, 2 rejected" in found
    kept = records.read_conversion(tmp_path / "out")
    assert (kept["documents_read"], kept["documents_rejected"], "rows_read" in kept) == (42, 2, False)


def test_where_leaks_are_counted_is_said_if_they_were_not():
    given = published({"train": 3}, were_leaks_counted=False)
    assert any("python -m beam_jobs.verify out` counts" in line for line in lines(given))
    assert not any("verify" in line for line in lines(published({"train": 3})))


def test_a_dataset_without_rows_has_one_warning():
    given = published({"train": 0, "test": 0})
    given.manifest.rows_read = given.manifest.rows_rejected = 200
    [warning] = [line for line in lines(given) if line.startswith("warning")]
    assert warning == "warning: the dataset has no rows: all 200 were rejected."


def test_rows_of_a_table_have_none_of_these():
    assert lines(published({"train": 100}))[0].split() == ["split", "rows", "shards", "MB"]


def test_a_split_that_is_far_from_its_share_is_named():
    texts = {"train": {"documents": 243}, "test": {"documents": 13}}
    given = published({"train": 958, "test": 42}, texts=texts, fractions={"train": 0.9, "test": 0.1})
    (line,) = summary.to_json(given, "out", seconds=1.0)["notes"]
    told = "split 'test' has 4.2% of the rows, where 10.0% were asked for: 13 of 256 documents. "
    assert line.startswith(told)
    assert "--input=test=PATH" in line


def test_rows_that_are_no_groups_are_not_called_groups():
    given = published({"train": 95, "test": 5}, fractions={"train": 0.9, "test": 0.1})
    (line,) = summary.to_json(given, "out", seconds=1.0)["notes"]
    assert "5 of 100 rows. Few rows, or " in line


@pytest.mark.parametrize(
    "rows", [{"train": 930, "test": 70}, {"train": 870, "test": 130}, {"train": 9, "test": 0}]
)
def test_a_split_near_its_share_or_empty_is_not_named(rows):
    """That one has no rows is said elsewhere."""
    given = published(rows, fractions={"train": 0.9, "test": 0.1})
    assert not summary.to_json(given, "out", seconds=1.0)["notes"]
