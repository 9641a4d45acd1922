"""Prints messages of which the model says something else than the table: often the table is wrong."""

import csv
import pathlib

import pyarrow.parquet as pq

said = {row["message"]: row["class"] for row in pq.read_table("build/mail_answers").to_pylist()}
rows = list(csv.DictReader(pathlib.Path("build/mail.csv").read_text().splitlines()))
others = [row for row in rows if said[row["message"]] != row["desk"]]
print(f"{len(others)} of {len(rows)} messages, such as: {others[0]['message']!r} is {others[0]['desk']!r}")
