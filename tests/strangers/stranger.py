"""What a stranger's data set is, and the plain table that most of them are made uglier from."""

import csv
import dataclasses
import io
import pathlib
import random
from collections.abc import Callable, Mapping, Sequence

Row = dict[str, str]

TABULAR = ("--config.model.hidden=8,4", "--config.model.embedding=2", "--config.model.frequencies=2")
IMAGES = ("--config.model.widths=4,8", "--config.model.blocks_per_stage=1", "--config.image_size=16,16")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stranger:
    """A data set that nobody prepared for us, and the flags that its owner would give.

    `write` puts it into an empty folder, in which `inputs` lie, each `[SPLIT=]PATH`. `ends`: one line
    that says what to do, before training, is as good as working; every other set has to work.
    """

    name: str
    ugly: str  # in a few words
    write: Callable[[pathlib.Path], object]
    inputs: tuple[str, ...] = ("data.csv",)
    source: tuple[str, ...] = ()  # flags of infer_schema, convert and predict
    infer: tuple[str, ...] = ("--label=bought",)
    config: str = "tabular"
    train: tuple[str, ...] = TABULAR
    ends: bool = False


def visits(rows: int = 300, *, seed: int = 0) -> list[Row]:
    """The README's table: age, city and visits tell whether something was bought."""
    draws = random.Random(seed)
    return [_visit(draws) for _ in range(rows)]


def _visit(draws: random.Random) -> Row:
    city, visits = draws.choice(["Basel", "Bern", "Genf"]), draws.randint(0, 9)
    bought = visits + 2 * (city == "Bern") + draws.gauss(0, 1) > 5
    return {
        "age": str(draws.randint(18, 80)),
        "city": city,
        "visits": str(visits),
        "bought": "yes" if bought else "no",
    }


def renamed(rows: Sequence[Row], names: Mapping[str, str]) -> list[Row]:
    return [{names.get(name, name): cell for name, cell in row.items()} for row in rows]


def with_column(rows: Sequence[Row], name: str, cell: Callable[[int, Row], object]) -> list[Row]:
    """`rows` with a first column of this name; `cell` is called with a row's number and the row."""
    return [{name: str(cell(number, row)), **row} for number, row in enumerate(rows)]


def csv_text(rows: Sequence[Row], *, header: Sequence[str] | None = None, **dialect: str) -> str:
    """CSV with its header: `header`, which may name a column twice, or else the rows' own names."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n", **dialect)
    cells = [list(row.values()) for row in rows]
    names = list(rows[0]) if header is None else header
    writer.writerows([names, *cells] if names else cells)
    return file.getvalue()


def csv_file(
    rows: Callable[[], Sequence[Row]],
    *,
    path: str = "data.csv",
    encoding: str = "utf-8",
    header: Sequence[str] | None = None,
    **dialect: str,
) -> Callable[[pathlib.Path], object]:
    """Writes what `rows` gives to `path` of a folder."""

    def write(folder: pathlib.Path) -> None:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(csv_text(rows(), header=header, **dialect).encode(encoding))

    return write


def column(name: str, cell: Callable[[int, Row], object], *, rows: int = 300) -> Callable:
    """Writes the table with one column more."""
    return csv_file(lambda: with_column(visits(rows), name, cell))
