"""Raw data as people have them, by kinds, each with the truth: what of which row has to be stored.

Each function draws one case, writes it below a folder, and returns it. Rows are known by `weight`, which
differs in all of them. The truth comes from Python's csv, datetime and zoneinfo, os.walk, and a state machine
for quotes.
"""

import bz2
import csv
import dataclasses
import datetime
import gzip
import io
import json
import os
import pathlib
import random
import zoneinfo
from collections.abc import Callable, Mapping, Sequence

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from tests.shared.avro import SYNC, avro_header, zigzag
from tests.shared.careful_csv import DIALECTS, careful_rows
from tests.shared.missing_conventions import TAKEN, TOLD, cells_with
from tests.shared.moments import is_skipped, is_twice, microseconds

Cells = Mapping[str, object]  # of a row: text, int, float, Moment, or None where it is missing
KEY, LABEL = "weight", "bought"
TOWNS = ("Bern", "Zürich", "St. Gallen", "Chur (GR)", "Genève", "Sion")


@dataclasses.dataclass(frozen=True)
class Moment:
    microseconds: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ugly:
    """A case on disk.

    Attributes:
      location: what --input is given.
      stored: the cells of each row that has to be stored, by its weight.
      rows: how many rows there are, those included that have to be rejected.
      owner: whether the one who knows the data would follow this flag.
      flags: those that the owner gives from the start.
      zone: of the times; the owner writes it into the schema.
      twice: how many times of the zone clocks show twice; what convert has to say.
      mend: for what is refused at first: the name that has to be told, and what the advice amounts to.
    """

    location: pathlib.Path
    stored: Mapping[float, Cells]
    rows: int
    owner: Callable[[str], bool] = lambda flag: False
    flags: Sequence[str] = ()
    zone: str = ""
    twice: int = 0
    mend: tuple[str, Callable[[], object]] | None = None


def _weight(row: int) -> float:
    return row * 1.5 + 0.25


def _base(draw: random.Random, row: int) -> dict[str, object]:
    return {KEY: _weight(row), "town": draw.choice(TOWNS), LABEL: draw.choice(["yes", "no"])}


def _csv(rows: Sequence[Cells], **dialect: object) -> str:
    file = io.StringIO()
    writer = csv.writer(file, **{"lineterminator": "\n"} | dialect)
    writer.writerow(rows[0])
    writer.writerows([["" if cell is None else cell for cell in row.values()] for row in rows])
    return file.getvalue()


def _by_weight(rows: Sequence[Cells]) -> dict[float, Cells]:
    return {row[KEY]: row for row in rows}


def links(draw: random.Random, folder: pathlib.Path) -> Ugly:
    """Folders of days with files, some of which are links to elsewhere; one may lead nowhere or back."""
    raw, elsewhere, count = folder / "raw", folder / "elsewhere", 0
    raw.mkdir()
    for day in range(draw.randint(2, 5)):
        real = draw.choice([raw, elsewhere]) / f"day={day}"
        real.mkdir(parents=True)
        for file in range(draw.randint(1, 3)):
            rows = [_base(draw, count + row) for row in range(draw.randint(20, 40))]
            count += len(rows)
            target = real / f"{draw.choice(['', '', '', '.', '_'])}part-{file}.csv"
            if draw.random() < 0.3:
                away = elsewhere / "files" / f"{day}-{file}"
                away.parent.mkdir(parents=True, exist_ok=True)
                away.write_text(_csv(rows))
                target.symlink_to(away)
            else:
                target.write_text(_csv(rows))
        if real.parent == elsewhere:
            (raw / real.name).symlink_to(os.path.relpath(real, raw))
    (raw / "day=9").mkdir()
    (raw / "day=9" / "last.csv").write_text(_csv([_base(draw, count + row) for row in range(20)]))
    mend = None
    if draw.random() < 0.3:
        name, to = draw.choice([("day=7", "../gone"), ("day=9/x.csv", "x.csv"), ("day=9/back", "..")])
        (raw / name).symlink_to(to)
        mend = (name, (raw / name).unlink)
    return Ugly(location=raw, mend=mend, **_walked(raw))


def _walked(raw: pathlib.Path) -> dict[str, object]:
    """What os.walk and Python's csv find below `raw`, hidden files aside."""
    stored: dict[float, Cells] = {}
    for folder, _, names in os.walk(raw, followlinks=True):
        for path in (pathlib.Path(folder, name) for name in names if not name.startswith(".")):
            if path.exists() and len(path.parts) < len(raw.parts) + 3:
                rows = csv.DictReader(path.read_text().splitlines())
                stored |= {float(row[KEY]): row | {KEY: float(row[KEY])} for row in rows}
    return {"stored": stored, "rows": len(stored)}


def quotes(draw: random.Random, folder: pathlib.Path) -> Ugly:
    """Cells with delimiters, quotes and line ends, in one of five dialects; some rows are spoilt."""
    dialect = draw.choice(DIALECTS)
    has_quote, has_escape = dialect.quote != "none", dialect.escape != "none"
    words = [
        "plain",
        "it's",
        'say "hi" now',
        f"a{dialect.delimiter} b",
        "C:\\new",
        "two\nlines",
        "größe",
        '"q"',
    ]
    if not has_quote:
        words.remove('"q"')  # a cell all in quotes is one in quotes, for whoever does not know
    if not has_quote and not has_escape:
        words = [word for word in words if not set(word) & {dialect.delimiter, "\n"}]
    rows = [_base(draw, row) | {"note": draw.choice(words)} for row in range(draw.randint(80, 200))]
    content = _csv(
        rows,
        delimiter=dialect.delimiter,
        quotechar=dialect.quote if has_quote else None,
        quoting=csv.QUOTE_MINIMAL if has_quote else csv.QUOTE_NONE,
        doublequote=not has_escape,
        escapechar=dialect.escape if has_escape else None,
    )
    head, _, rest = content.partition("\n")
    spoilt = ""
    if has_quote and draw.random() < 0.5:
        sign, part = dialect.quote, dialect.delimiter
        spoilt = f"{9e6 + draw.randint(0, 9)}{part}Bern{part}yes{part}{sign}behind{sign} it\n"
    content = f"{head}\n{spoilt}{rest}"
    (folder / "data.csv").write_text(content)
    _, *found = [row for row in careful_rows(content, dialect) if not row.is_blank]
    good = [row.cells for row in found if len(row.cells) == 4 and not row.is_flawed]
    names = head.split(dialect.delimiter)
    stored = [dict(zip(names, cells, strict=True)) for cells in good]
    return Ugly(
        location=folder / "data.csv",
        stored=_by_weight([row | {KEY: float(row[KEY])} for row in stored]),
        rows=len(found),
    )


# How strptime writes dates, the format of a schema, and the time that may follow.
_SPELLINGS = (
    *(
        (date, date)
        for date in ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%y", "%d/%m/%y", "%d-%b-%y", "%d-%b-%Y", "%Y%m%d")
    ),
    *(
        ("%d %B %Y", "%d %b %Y"),
        ("%b %d, %Y", "%b %d, %Y"),
        ("%y-%m-%d", "%y-%m-%d"),
        ("%d-%m-%y", "%d-%m-%y"),
    ),
)
_ZONES = ("", "", "Europe/Zurich", "America/New_York", "Australia/Lord_Howe")


def times(draw: random.Random, folder: pathlib.Path) -> Ugly:
    """Dates and times in a spelling, on the clocks of a zone, or typed; a few are none."""
    kind = draw.choice(["text", "text", "text", "parquet", "int96", "avro"])
    return _typed_times(draw, folder, kind) if kind != "text" else _spelled_times(draw, folder)


def _spelled_times(draw: random.Random, folder: pathlib.Path) -> Ugly:
    spelling, format = draw.choice(_SPELLINGS)
    zone, spelling = draw.choice(_ZONES), spelling + draw.choice(["", " %H:%M", " %H:%M:%S", " %I:%M %p"])
    if draw.random() < 0.15:
        spelling, format = "%Y%m%d%H%M%S", "%Y%m%d%H%M%S"
    info, oldest = zoneinfo.ZoneInfo(zone or "UTC"), draw.choice([1930, 1969, 1990])
    first = oldest if "%y" in spelling else 1969
    rows, stored, twice = [], [], 0
    for row in range(draw.randint(150, 300)):
        moment = datetime.datetime(oldest, 1, 1) + datetime.timedelta(minutes=30 * draw.randint(0, 900_000))
        if draw.random() < 0.2 and "%M" in spelling:  # near where clocks change
            moment = datetime.datetime(oldest + 5, draw.choice([3, 4, 10, 11]), draw.randint(1, 30), 1)
            moment += datetime.timedelta(minutes=30 * draw.randint(0, 4))
        text = moment.strftime(spelling)
        read = datetime.datetime.strptime(text, spelling)
        if "%y" in spelling:
            read = read.replace(year=(read.year - first) % 100 + first)
        cells = _base(draw, row)
        if draw.random() < 0.002:
            rows.append(cells | {"seen": text.translate(str.maketrans("0123456789", "9999999999"))})
            continue
        rows.append(cells | {"seen": text})
        is_day = "%H" not in spelling and "%I" not in spelling
        if is_day or not is_skipped(read, info):
            stored.append(cells | {"seen": Moment(microseconds(read.replace(tzinfo=info)))})
            twice += not is_day and is_twice(read, info)
    (folder / "data.csv").write_text(_csv(rows))
    return Ugly(
        location=folder / "data.csv",
        stored=_by_weight(stored),
        rows=len(rows),
        zone=zone,
        twice=twice,
        flags=[f"--first_year=seen={first}"] if first != 1969 else [],
        owner=lambda flag: flag == f"--date_format=seen={format}",
    )


_NEVER = {"s": 1 << 40, "ms": 1 << 53, "us": 1 << 61}  # counts of no date that a calendar holds
_LOGICAL = {
    "timestamp-millis": 1_000,
    "timestamp-micros": 1,
    "local-timestamp-millis": 1_000,
    "date": 86_400_000_000,
}


def _typed_times(draw: random.Random, folder: pathlib.Path, kind: str) -> Ugly:
    rows, stored = [], []
    logical = draw.choice([*_LOGICAL])
    unit = {"parquet": draw.choice(["s", "ms", "us"]), "int96": "us"}.get(kind, "us")
    scale = {"s": 1_000_000, "ms": 1_000, "us": 1}[unit] if kind != "avro" else _LOGICAL[logical]
    days = draw.choice([8_000, 2_900_000 - 2])
    for row in range(draw.randint(100, 200)):
        moment = draw.randint(1, days) * 86_400_000_000
        cells, count = _base(draw, row), moment // scale
        if kind == "avro" and draw.random() < 0.02:
            rows.append(cells | {"seen": 1 << 30 if logical == "date" else 1 << 61})
            continue
        if kind == "parquet" and draw.random() < 0.02:
            rows.append(cells | {"seen": _NEVER[unit]})
            continue
        rows.append(cells | {"seen": count})
        stored.append(cells | {"seen": Moment(moment)})
    path = folder / f"data.{'avro' if kind == 'avro' else 'parquet'}"
    if kind == "avro":
        _write_avro(path, rows, logical)
    else:
        table = pa.Table.from_pylist(rows)
        seen = table["seen"].cast(pa.timestamp(unit))
        table = table.set_column(table.schema.get_field_index("seen"), "seen", seen)
        pq.write_table(table, path, use_deprecated_int96_timestamps=kind == "int96")
    return Ugly(location=path, stored=_by_weight(stored), rows=len(rows))


def _write_avro(path: pathlib.Path, rows: Sequence[Cells], logical: str) -> None:
    """Writes the numbers, which fastavro would refuse as times, under a schema that says they are times."""
    whole = "int" if logical == "date" else "long"
    types = {KEY: "double", "town": "string", LABEL: "string", "seen": whole}
    fields = [{"name": name, "type": type_} for name, type_ in types.items()]
    records = io.BytesIO()
    for row in rows:
        fastavro.schemaless_writer(records, {"type": "record", "name": "row", "fields": fields}, row)
    fields[-1] = {"name": "seen", "type": {"type": whole, "logicalType": logical}}
    head = avro_header(json.dumps({"type": "record", "name": "row", "fields": fields}))
    data = records.getvalue()
    path.write_bytes(head + zigzag(len(rows)) + zigzag(len(data)) + data + SYNC)


def integers(draw: random.Random, folder: pathlib.Path) -> Ugly:
    """Whole numbers of up to 30 digits, neighbours or not, some cells empty, as text or typed."""
    first, step = 10 ** draw.randint(3, 30) + draw.randint(0, 99), draw.choice([1, 3, 128, 10**6])
    count, share = draw.randint(100, 250), draw.choice([0.0, 0.05])
    pool = [first + step * at for at in range(draw.choice([40, count]))]
    cells = [None if draw.random() < share else draw.choice(pool) for _ in range(count)]
    rows = [_base(draw, row) | {"ref": cell} for row, cell in enumerate(cells)]
    kinds = ["csv", "jsonl"]
    kinds += ["int64"] if pool[-1] < 2**63 else ["decimal"]
    kinds += ["uint64"] if pool[-1] < 2**64 else []
    kind = draw.choice(kinds)
    path = folder / f"data.{kind if kind in ('csv', 'jsonl') else 'parquet'}"
    if kind == "csv":
        path.write_text(_csv(rows))
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        exact = pa.decimal128(38) if kind == "decimal" else pa.type_for_alias(kind)
        columns = {name: [row[name] for row in rows] for name in (KEY, "town", LABEL)}
        pq.write_table(pa.table(columns | {"ref": pa.array(cells, exact)}), path)
    return Ugly(location=path, stored=_by_weight(rows), rows=count)


def sentinels(draw: random.Random, folder: pathlib.Path) -> Ugly:
    """Three columns, each with a convention for "no value": the owner knows that it is none."""
    conventions = draw.sample(TOLD + TAKEN, 3)
    share = draw.choice([0.02, 0.05, 0.15])
    columns = {f"c{at}": cells_with(*convention, share=share) for at, convention in enumerate(conventions)}
    markers = {f"c{at}": marker for at, (_, marker) in enumerate(conventions)}
    rows = [
        _base(draw, row) | dict(zip(columns, cells, strict=True))
        for row, cells in enumerate(zip(*columns.values(), strict=True))
    ]
    (folder / "data.csv").write_text(_csv(rows))
    stored = [
        {name: None if markers.get(name) == cell else _value(cell) for name, cell in row.items()}
        for row in rows
    ]
    flags = {f"--missing={name}={marker}" for name, marker in markers.items()}
    return Ugly(
        location=folder / "data.csv",
        stored=_by_weight(stored),
        rows=len(rows),
        owner=lambda flag: flag in flags,
    )


def _value(cell: object) -> object:
    """A cell of the conventions as what it means: a number, a day or a word."""
    text = str(cell).removeprefix("$")
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)
        return Moment(microseconds(moment))
    except ValueError:
        return cell


_PACK = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}
_ENCODINGS = ("utf-8", "utf-8", "utf-8-sig", "latin-1", "utf-16", "utf-16-le", "utf-16-be", "utf-32")


def dialects(draw: random.Random, folder: pathlib.Path) -> Ugly:
    """Any delimiter, encoding, line end, compression and header, and what spreadsheets and R add."""
    delimiter, end = draw.choice(",;\t|"), draw.choice(["\n", "\r\n", "\r"])
    encoding, packed = draw.choice(_ENCODINGS), draw.choice([*_PACK])
    rows = [_base(draw, row) | {"size": draw.randint(1, 9)} for row in range(draw.randint(60, 150))]
    lines = _csv(rows, delimiter=delimiter, lineterminator="\n").splitlines()
    odd = draw.choice(["", "", "trailing", "sep", "r", "blank lines", "spaces", "quoted"])
    if odd == "trailing":
        lines = [line + delimiter for line in lines]
    elif odd == "sep":
        lines = [f"sep={delimiter}", *lines]
    elif odd == "r":
        lines = [lines[0], *(f"{row}{delimiter}{line}" for row, line in enumerate(lines[1:], 1))]
    elif odd == "blank lines":
        lines = [line for each in lines for line in ([each, ""] if draw.random() < 0.1 else [each])]
    elif odd == "spaces":
        lines = [line.replace(delimiter, f"{delimiter} ") if delimiter != "\t" else line for line in lines]
    elif odd == "quoted":
        lines = [delimiter.join(f'"{cell}"' for cell in line.split(delimiter)) for line in lines]
    path = folder / f"data.{draw.choice(['csv', 'CSV', 'tsv' if delimiter == chr(9) else 'csv'])}{packed}"
    path.write_bytes(_PACK[packed]((end.join(lines) + draw.choice([end, ""])).encode(encoding)))
    return Ugly(
        location=path,
        stored=_by_weight(rows),
        rows=len(rows),
        owner=lambda flag: flag.startswith(("--column_names=", "--header=", "--delimiter=", "--encoding=")),
    )


KINDS: Mapping[str, Callable[[random.Random, pathlib.Path], Ugly]] = {
    kind.__name__: kind for kind in (links, quotes, times, integers, sentinels, dialects)
}
