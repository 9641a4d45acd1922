"""Sizes from one row to thousands, and where files lie: parts, folders, odd file names."""

import pathlib

from tests.strangers.stranger import Stranger, csv_file, csv_text, visits


def _parts(folder: pathlib.Path) -> None:
    (folder / "data").mkdir()
    for number in range(4):
        part = csv_text(visits(100, seed=number))
        (folder / "data" / f"part-{number}.csv").write_text(part)
    (folder / "data" / "_SUCCESS").touch()


def _parts_of_other_columns(folder: pathlib.Path) -> None:
    (folder / "data").mkdir()
    turned = [dict(reversed(row.items())) for row in visits(100, seed=1)]
    (folder / "data" / "part-0.csv").write_text(csv_text(visits(100)))
    (folder / "data" / "part-1.csv").write_text(csv_text(turned))


def _pinned(folder: pathlib.Path) -> None:
    (folder / "my train.csv").write_text(csv_text(visits(300)))
    (folder / "my test.csv").write_text(csv_text(visits(80, seed=1)))


def _header_only(folder: pathlib.Path) -> None:
    (folder / "data.csv").write_text("age,city,visits,bought\n")


def _empty(folder: pathlib.Path) -> None:
    (folder / "data.csv").touch()


STRANGERS = (
    Stranger(name="rows_0", ugly="a header, no row", write=_header_only, ends=True),
    Stranger(name="rows_none", ugly="an empty file", write=_empty, ends=True),
    Stranger(name="rows_1", ugly="one row", write=csv_file(lambda: visits(1)), ends=True),
    Stranger(name="rows_2", ugly="two rows", write=csv_file(lambda: visits(2)), ends=True),
    Stranger(name="rows_20", ugly="20 rows", write=csv_file(lambda: visits(20)), ends=True),
    Stranger(name="rows_5000", ugly="5,000 rows", write=csv_file(lambda: visits(5_000))),
    Stranger(
        name="one_column",
        ugly="a label and no input",
        write=csv_file(lambda: [{"bought": row["bought"]} for row in visits()]),
        ends=True,
    ),
    Stranger(
        name="parts", ugly="four files in a folder, beside _SUCCESS", write=_parts, inputs=("data/*.csv",)
    ),
    Stranger(
        name="parts_folder",
        ugly="the same folder, given as such",
        write=_parts,
        inputs=("data",),
        source=("--format=csv",),
    ),
    Stranger(
        name="parts_other_order",
        ugly="two files with columns in another order",
        write=_parts_of_other_columns,
        inputs=("data/*.csv",),
    ),
    Stranger(
        name="pinned_splits",
        ugly="train and test given apart, names with blanks",
        write=_pinned,
        inputs=("train=my train.csv", "test=my test.csv"),
    ),
    Stranger(
        name="file_name",
        ugly="'Копия (1) [final] 100%.csv'",
        write=csv_file(visits, path="Копия (1) [final] 100%.csv"),
        inputs=("Копия (1) [final] 100%.csv",),
    ),
    Stranger(
        name="file_name_digits",
        ugly="'2024-01-31.data.v2.csv' in 'my data'",
        write=csv_file(visits, path="my data/2024-01-31.data.v2.csv"),
        inputs=("my data/2024-01-31.data.v2.csv",),
    ),
)
