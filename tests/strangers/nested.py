"""Rows that hold rows: JSON Lines, Parquet and Avro from other systems."""

import datetime
import decimal
import json
import pathlib

import fastavro
import pyarrow as pa
import pyarrow.parquet

from tests.strangers.stranger import Stranger, visits


def _nested(number: int, row: dict[str, str]) -> dict:
    return {
        "user": {"age": int(row["age"]), "home": {"city": row["city"]}},
        "visits": int(row["visits"]),
        "scores": [number % 5 + 0.5, 1.0, 2.0],
        "bought": row["bought"] == "yes",
    }


def _jsonl(folder: pathlib.Path) -> None:
    rows = [_nested(number, row) for number, row in enumerate(visits())]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _uneven(folder: pathlib.Path) -> None:
    rows = [_nested(number, row) for number, row in enumerate(visits())]
    for number, row in enumerate(rows):
        row["scores"] = row["scores"][: number % 4]
        row["visits"] = [row["visits"], str(row["visits"]), None][number % 3]
        if number % 5 == 0:
            del row["user"]["home"]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _array(folder: pathlib.Path) -> None:
    (folder / "data.json").write_text(json.dumps(visits(), indent=1))


def _parquet(folder: pathlib.Path) -> None:
    rows = [
        {
            "age": int(row["age"]),
            "city": row["city"],
            "since": datetime.date(2020, 1, 1) + datetime.timedelta(days=number),
            "at": datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(minutes=number),
            "price": decimal.Decimal(number * 25) / 100,
            "bought": row["bought"] == "yes",
            "__index_level_0__": number,
        }
        for number, row in enumerate(visits())
    ]
    table = pa.Table.from_pylist(rows)
    city = table.column("city").dictionary_encode()
    pa.parquet.write_table(table.set_column(1, "city", city), folder / "data.parquet")


def _avro(folder: pathlib.Path) -> None:
    home = {"type": "record", "name": "home", "fields": [{"name": "city", "type": ["null", "string"]}]}
    fields = [
        {"name": "age", "type": ["null", "int"]},
        {"name": "home", "type": home},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "bought", "type": {"type": "enum", "name": "answer", "symbols": ["no", "yes"]}},
    ]
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    rows = [
        {
            "age": None if number % 7 == 0 else int(row["age"]),
            "home": {"city": row["city"]},
            "at": start + datetime.timedelta(minutes=number),
            "bought": row["bought"],
        }
        for number, row in enumerate(visits())
    ]
    with (folder / "data.avro").open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, rows)


STRANGERS = (
    Stranger(
        name="jsonl_nested", ugly="objects and lists in JSON Lines", write=_jsonl, inputs=("data.jsonl",)
    ),
    Stranger(
        name="jsonl_uneven",
        ugly="lists of any length, keys that come and go, 3 beside '3'",
        write=_uneven,
        inputs=("data.jsonl",),
    ),
    Stranger(
        name="json_array",
        ugly="one JSON array, indented",
        write=_array,
        inputs=("data.json",),
        source=("--format=jsonl",),
        ends=True,
    ),
    Stranger(
        name="parquet",
        ugly="dates, decimals, dictionaries, pandas' index",
        write=_parquet,
        inputs=("data.parquet",),
    ),
    Stranger(name="avro", ugly="unions, records, enums, logical types", write=_avro, inputs=("data.avro",)),
)
