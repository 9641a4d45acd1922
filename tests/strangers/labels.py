"""What is to be predicted: classes, numbers, lists, nothing at all."""

import json
import pathlib
import random

from tests.strangers.stranger import Stranger, csv_file, visits, with_column


def _jsonl(folder: pathlib.Path, rows: list[dict]) -> None:
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _multilabel(folder: pathlib.Path) -> None:
    draws = random.Random(0)
    tags = ["red", "green", "blue"]
    _jsonl(folder, [{**row, "tags": draws.sample(tags, draws.randint(0, 3))} for row in visits()])


def _pairs(folder: pathlib.Path) -> None:
    draws = random.Random(0)
    pairs = [(draws.randrange(40), draws.randrange(90)) for _ in range(500)]
    lines = (f"user{user},item{item},{1_700_000_000 + n}" for n, (user, item) in enumerate(pairs))
    (folder / "data.csv").write_text("\n".join(["user,item,clicked_at", *lines]) + "\n")


def _sometimes(number: int) -> str:
    return "" if number % 9 == 0 else str(number % 2)


STRANGERS = (
    Stranger(
        name="label_multiclass",
        ugly="three classes by name",
        write=csv_file(visits),
        infer=("--label=city",),
    ),
    Stranger(
        name="label_integer_many",
        ugly="an integer label of 60 ordered values",
        write=csv_file(visits),
        infer=("--label=age",),
    ),
    Stranger(
        name="label_float",
        ugly="a float label",
        write=csv_file(lambda: with_column(visits(), "price", lambda n, row: int(row["age"]) * 1.5 + 0.25)),
        infer=("--label=price",),
    ),
    Stranger(
        name="label_01",
        ugly="a label of 0 and 1",
        write=csv_file(lambda: with_column(visits(), "y", lambda n, row: int(row["bought"] == "yes"))),
        infer=("--label=y", "--ignore=bought"),
    ),
    Stranger(
        name="label_missing",
        ugly="every ninth label is missing",
        write=csv_file(lambda: with_column(visits(), "y", lambda n, row: _sometimes(n))),
        infer=("--label=y",),
        ends=True,
    ),
    Stranger(
        name="label_constant",
        ugly="a label of one class",
        write=csv_file(lambda: with_column(visits(), "y", lambda n, row: "same")),
        infer=("--label=y",),
        ends=True,
    ),
    Stranger(
        name="label_rare",
        ugly="a class of two rows in 300",
        write=csv_file(
            lambda: with_column(visits(), "y", lambda n, row: "rare" if n in (7, 90) else "usual")
        ),
        infer=("--label=y",),
    ),
    Stranger(
        name="label_misspelt",
        ugly="--label=Bought, and the column is 'bought'",
        write=csv_file(visits),
        infer=("--label=Bought",),
        ends=True,
    ),
    Stranger(name="label_unsaid", ugly="no --label", write=csv_file(visits), infer=(), ends=True),
    Stranger(
        name="label_list",
        ugly="several labels a row (multilabel)",
        write=_multilabel,
        inputs=("data.jsonl",),
        infer=("--label=tags",),
        ends=True,
    ),
    Stranger(
        name="label_pairs",
        ugly="pairs of user and item (retrieval)",
        write=_pairs,
        infer=("--label=item",),
        ends=True,
    ),
)
