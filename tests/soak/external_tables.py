"""Tables that nobody prepared for us: names, dialects, cells, labels and texts as people have them."""

import csv
import dataclasses
import datetime
import gzip
import io
import json
import pathlib
import random
from collections.abc import Callable, Mapping, Sequence

Row = dict[str, str]
Cell = Callable[[int, Row], object]  # of a row's number and the row
Write = Callable[[pathlib.Path], object]
TABULAR = ("--config.model.hidden=8,4", "--config.model.embedding=2", "--config.model.bins=2")


@dataclasses.dataclass(frozen=True, kw_only=True)
class External:
    """A data set, and the flags that its owner would give.

    `write` puts it into an empty folder, in which `inputs` lie, each `[SPLIT=]PATH`. `ends`: one line that
    says what to do, before training, is as good as working; every other set has to work.
    """

    name: str
    ugly: str  # in a few words
    write: Write
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
    age = str(draws.randint(18, 80))
    return {"age": age, "city": city, "visits": str(visits), "bought": "yes" if bought else "no"}


def with_column(rows: Sequence[Row], name: str, cell: Cell) -> list[Row]:
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
) -> Write:
    def write(folder: pathlib.Path) -> None:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(csv_text(rows(), header=header, **dialect).encode(encoding))

    return write


def plain(path: str, content: Callable[[], str | bytes]) -> Write:
    def write(folder: pathlib.Path) -> None:
        data = content()
        (folder / path).write_bytes(data if isinstance(data, bytes) else data.encode())

    return write


def column(name: str, cell: Cell) -> Write:
    """Writes the table with one column more."""
    return csv_file(lambda: with_column(visits(), name, cell))


def _named(**names: str) -> Write:
    return csv_file(lambda: [{names.get(name, name): cell for name, cell in row.items()} for row in visits()])


def _german() -> list[Row]:
    cities = {"Basel": "Zürich", "Bern": "Köln", "Genf": "Genève"}
    return [{**row, "city": cities[row["city"]]} for row in visits()]


def _crlf_and_blank_lines() -> bytes:
    lines = csv_text(visits()).splitlines()
    return "\r\n".join([*lines[:50], "", *lines[50:], "", ""]).encode()


def _ragged() -> str:
    lines = csv_text(visits()).splitlines()
    lines[40] += ",one more"
    return "\n".join(lines) + "\n"


def _moment(number: int) -> datetime.datetime:
    return datetime.datetime(2024, 1, 1, 6, 30) + datetime.timedelta(hours=7 * number)


def _two(name: str, cell: Cell, other: str, other_cell: Cell) -> Write:
    return csv_file(lambda: with_column(with_column(visits(), name, cell), other, other_cell))


def _uuid(number: int) -> str:
    return f"{random.Random(number).getrandbits(64):016x}"


def _mixed_missing(number: int, row: Row) -> str:
    return random.Random(number).choice(["", "NA", "n/a", "NULL", "-", "?", row["age"], row["age"]])


def _wide() -> list[Row]:
    names = range(5_000)
    return [
        {**{f"c{i}": f"{(n * i) % 97 / 7:.3f}" for i in names}, "bought": row["bought"]}
        for n, row in enumerate(visits(60))
    ]


def _multilabel() -> str:
    draws = random.Random(0)
    tags = ["red", "green", "blue"]
    rows = [{**row, "tags": draws.sample(tags, draws.randint(0, 3))} for row in visits()]
    return "".join(json.dumps(row) + "\n" for row in rows)


def _pairs() -> str:
    draws = random.Random(0)
    pairs = [(draws.randrange(40), draws.randrange(90)) for _ in range(500)]
    lines = (f"user{user},item{item},{1_700_000_000 + n}" for n, (user, item) in enumerate(pairs))
    return "\n".join(["user,item,clicked_at", *lines]) + "\n"


_WORDS = ("the", "a", "cheap", "good", "bad", "late", "box", "came", "was", "not", "très", "好", "мир", "🙂")


def _sentence(number: int) -> str:
    draws = random.Random(number)
    return " ".join(draws.choices(_WORDS, k=draws.randint(4, 20)))


def _corpus() -> str:
    return "\n".join(["", *map(_sentence, range(2_000)), "", "   "]) + "\n"


# Name, what is ugly, what writes it, and the label where it is not `bought`.
_NAMES: tuple[tuple[str, str, Write, str], ...] = (
    ("spaces", "'plan type', ' age '", _named(city="plan type", age=" age ", visits="visits (per year)"), ""),
    (
        "unicode",
        "'größe', '城市', an emoji",
        _named(city="城市", age="größe", visits="визиты 🙂", bought="gekauft?"),
        "gekauft?",
    ),
    (
        "that_collide",
        "'a b', 'a_b' and 'A-B' become one name",
        _named(city="a b", age="a_b", visits="A-B"),
        "",
    ),
    (
        "of_keywords",
        "'class', 'def', 'self', label 'import'",
        _named(city="class", age="def", visits="self", bought="import"),
        "import",
    ),
    (
        "of_ours",
        "'label', 'examples', 'inputs'",
        _named(city="examples", age="inputs", visits="predictions", bought="label"),
        "label",
    ),
    ("empty", "no name, as pandas writes its index", column("", lambda n, row: n), ""),
    (
        "with_slashes",
        "'km/h', '100%', 'a.b[0]', '$price'",
        _named(city="a.b[0]", age="km/h", visits="100%", bought="$price"),
        "$price",
    ),
    ("very_long", "a name of 300 characters", _named(age="how old is the customer " * 12 + "in years"), ""),
    ("of_other_case", "'Age' and 'age'", column("Age", lambda n, row: n % 7), ""),
    ("of_numbers", "'2021', '2022', '1e5'", _named(age="2021", visits="2022", city="1e5"), ""),
)
# Name, what is ugly, and the column with its cells.
_CELLS: tuple[tuple[str, str, str, Cell], ...] = (
    ("money", "'$1,234.50'", "price", lambda n, row: f"${1000 + n * 7.5:,.2f}"),
    ("money_behind", "'1.234,50 €'", "preis", lambda n, row: f"{n // 10 + 1}.{n % 1000:03},50 €"),
    ("percent", "'12.5%'", "rate", lambda n, row: f"{n % 80 / 2}%"),
    ("thousands", "'12,345'", "people", lambda n, row: f"{1000 + n * 37:,}"),
    ("sentinels", "-999, 9999: missing", "t", lambda n, row: [-999, 9999, n % 30, n % 25 + 0.5, 12][n % 5]),
    ("leading_zeros", "'00123'", "plz", lambda n, row: f"{n % 40:05}"),
    ("constant", "one value only", "country", lambda n, row: "CH"),
    ("leak", "gives the label away", "outcome", lambda n, row: "B1" if row["bought"] == "yes" else "B0"),
    (
        "spellings",
        "'Bern', 'bern', ' BERN '",
        "town",
        lambda n, row: [row["city"], row["city"].lower(), f" {row['city'].upper()} "][n % 3],
    ),
    ("missing_mixed", "'', NA, n/a, NULL, - and ?", "income", _mixed_missing),
    ("late_text", "one word in row 290", "score", lambda n, row: "unknown" if n == 290 else n % 50),
    ("booleans", "TRUE, false, T, 0", "member", lambda n, row: ["TRUE", "false", "T", "0"][n % 4]),
    ("text", "sentences", "review", lambda n, row: _sentence(n)),
    (
        "text_empty",
        "a quarter each empty and blank",
        "review",
        lambda n, row: ["", "   ", "\t\n ", _sentence(n)][n % 4],
    ),
    ("text_blank_only", "blanks only", "review", lambda n, row: " " * (n % 3 + 1)),
)
_LABELS: tuple[tuple[str, str, str, Write], ...] = (
    ("multiclass", "three classes by name", "city", csv_file(visits)),
    ("integer_many", "60 ordered whole numbers", "age", csv_file(visits)),
    ("float", "a float", "price", column("price", lambda n, row: int(row["age"]) * 1.5 + 0.25)),
    (
        "rare",
        "a class of two rows in 300",
        "y",
        column("y", lambda n, row: "rare" if n in (7, 90) else "usual"),
    ),
)
# The same, of which one line may be all.
_LABELS_THAT_END: tuple[tuple[str, str, str, Write], ...] = (
    ("missing", "every ninth is missing", "y", column("y", lambda n, row: "" if n % 9 == 0 else n % 2)),
    ("constant", "one class", "y", column("y", lambda n, row: "same")),
    ("misspelt", "--label=Bought of 'bought'", "Bought", csv_file(visits)),
    ("pairs", "pairs of user and item (retrieval)", "item", plain("data.csv", _pairs)),
)
_DIALECTS: Mapping[str, tuple[str, Write]] = {
    "utf8_bom": ("UTF-8 with BOM", csv_file(_german, encoding="utf-8-sig")),
    "utf16": ("UTF-16, as Excel saves it", csv_file(_german, encoding="utf-16")),
    "latin1": ("Latin-1 umlauts", csv_file(_german, encoding="latin-1")),
    "tab_in_csv": ("tabs, in data.csv", csv_file(visits, delimiter="\t")),
    "semicolon": ("semicolons", csv_file(visits, delimiter=";")),
    "pipe": ("pipes", csv_file(visits, delimiter="|")),
    "crlf_blank_lines": ("CRLF, and blank lines between", plain("data.csv", _crlf_and_blank_lines)),
    "quoted_newlines": (
        "quotes and line ends in cells",
        column("note", lambda n, row: f'said "hi",\nthen {row["city"]}'),
    ),
    "dates": (
        "'2024-01-31' and '31.01.2024 06:30'",
        _two("day", lambda n, row: _moment(n).date(), "am", lambda n, row: f"{_moment(n):%d.%m.%Y %H:%M}"),
    ),
    "timestamps": (
        "ISO with zone, and unix seconds",
        _two("at", lambda n, row: f"{_moment(n).isoformat()}Z", "unix", lambda n, row: 1_700_000_000 + n),
    ),
    "ids": (
        "a uuid, and 250 customer numbers",
        _two(
            "uuid",
            lambda n, row: _uuid(n),
            "customer",
            lambda n, row: 100_000 + random.Random(n).randrange(250),
        ),
    ),
    "missing_most": (
        "90% missing, and a column without a cell",
        _two("income", lambda n, row: "" if n % 10 else 1000 + n, "empty", lambda n, row: ""),
    ),
    "wide": ("5,000 columns", csv_file(_wide)),
    "text_long": (
        "texts of 20,000 characters",
        csv_file(lambda: with_column(visits(60), "body", lambda n, row: f"{_sentence(n)} " * 400)),
    ),
    "text_alone": (
        "texts and a label, nothing else",
        csv_file(
            lambda: [{"review": _sentence(n), "bought": row["bought"]} for n, row in enumerate(visits())]
        ),
    ),
    "rows_5000": ("5,000 rows", csv_file(lambda: visits(5_000))),
}
_THAT_END: Mapping[str, tuple[str, Write]] = {
    "names_twice": (
        "two columns are called 'city'",
        csv_file(visits, header=("city", "age", "city", "bought")),
    ),
    "no_header_unsaid": ("no header, and nobody says so", csv_file(visits, header=())),
    "comment_lines": (
        "two lines before the header",
        plain("data.csv", lambda: "# exported 2024-03-01\n# by shop\n" + csv_text(visits())),
    ),
    "ragged_row": ("one row of five cells", plain("data.csv", _ragged)),
    "huge_numbers": (
        "integers near 2^60, floats of 1e30",
        _two("big", lambda n, row: (1 << 60) + n * 1_000, "far", lambda n, row: f"{(n + 1) * 1e30:g}"),
    ),
    "infinities": (
        "inf, -inf and nan among numbers",
        column("ratio", lambda n, row: ["inf", "-inf", "nan", n / 7][min(n % 40, 3)]),
    ),
    "rows_0": ("a header, no row", plain("data.csv", lambda: "age,city,visits,bought\n")),
    "rows_none": ("an empty file", plain("data.csv", lambda: "")),
    "rows_1": ("one row", csv_file(lambda: visits(1))),
    "rows_2": ("two rows", csv_file(lambda: visits(2))),
    "rows_20": ("20 rows", csv_file(lambda: visits(20))),
    "one_column": ("a label and no input", csv_file(lambda: [{"bought": row["bought"]} for row in visits()])),
}
TABLES = (
    *(
        External(
            name=f"names_{name}", ugly=f"columns {ugly}", write=write, infer=(f"--label={label or 'bought'}",)
        )
        for name, ugly, write, label in _NAMES
    ),
    *(External(name=name, ugly=ugly, write=column(of, cell)) for name, ugly, of, cell in _CELLS),
    *(
        External(name=f"label_{name}", ugly=ugly, write=write, infer=(f"--label={label}",))
        for name, ugly, label, write in _LABELS
    ),
    *(
        External(name=f"label_{name}", ugly=ugly, write=write, infer=(f"--label={label}",), ends=True)
        for name, ugly, label, write in _LABELS_THAT_END
    ),
    *(External(name=name, ugly=ugly, write=write) for name, (ugly, write) in _DIALECTS.items()),
    *(External(name=name, ugly=ugly, write=write, ends=True) for name, (ugly, write) in _THAT_END.items()),
    External(
        name="label_01",
        ugly="a label of 0 and 1",
        write=column("y", lambda n, row: int(row["bought"] == "yes")),
        infer=("--label=y", "--ignore=bought"),
    ),
    External(name="label_unsaid", ugly="no --label", write=csv_file(visits), infer=(), ends=True),
    External(
        name="label_list",
        ugly="several labels a row (multilabel)",
        write=plain("data.jsonl", _multilabel),
        inputs=("data.jsonl",),
        infer=("--label=tags",),
        ends=True,
    ),
    External(
        name="no_header",
        ugly="no header; the label is the last column",
        write=csv_file(visits, header=()),
        source=("--column_names=age,city,visits,bought",),
    ),
    External(
        name="tab_in_tsv",
        ugly="tabs, in data.tsv",
        write=csv_file(visits, path="data.tsv", delimiter="\t"),
        inputs=("data.tsv",),
    ),
    External(
        name="gzip",
        ugly="data.csv.gz",
        write=plain("data.csv.gz", lambda: gzip.compress(csv_text(visits()).encode())),
        inputs=("data.csv.gz",),
    ),
    External(
        name="table_in_txt",
        ugly="tabs, in data.txt",
        write=csv_file(visits, path="data.txt", delimiter="\t"),
        inputs=("data.txt",),
        source=("--format=csv", "--delimiter=\\t"),
    ),
    External(
        name="text_next_token",
        ugly="a text file, to predict the next token",
        write=plain("corpus.txt", _corpus),
        inputs=("corpus.txt",),
        source=("--tokenizer=bytes", "--sequence_length=32"),
        infer=(),
        ends=True,
    ),
)
