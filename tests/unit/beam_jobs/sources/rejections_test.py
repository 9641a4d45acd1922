"""Rejected rows: the file that lists them, byte for byte, because the manifest holds its digest."""

import pathlib

from beam_jobs.sources import source
from beam_jobs.sources.source import Rejected, Rejection


def test_the_list_of_rejected_rows(tmp_path: pathlib.Path):
    listed = (
        Rejection(source="größe.csv", row=7, column="age", reason="not a number", raw="\t?"),
        Rejection(source="stray.png", row=None, reason="not at <input>/<class>/<file>"),
    )
    source.save_rejections(
        Rejected(reasons={"not a number": 1}, listed=listed), tmp_path / "rejected" / "rejected.jsonl"
    )
    assert (tmp_path / "rejected" / "rejected.jsonl").read_bytes() == (
        '{"source": "größe.csv", "row": 7, "column": "age", "reason": "not a number", "raw": "\\t?"}\n'
        '{"source": "stray.png", "row": null, "column": null, "reason": "not at <input>/<class>/<file>", '
        '"raw": ""}\n'
    ).encode()
