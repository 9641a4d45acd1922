"""What stands in cells: money, percent, dates, sentinels, ids, constants, answers given away, gaps."""

import datetime
import random

from tests.strangers.stranger import Row, Stranger, column, csv_file, visits, with_column

_START = datetime.datetime(2024, 1, 1, 6, 30)


def _moment(number: int) -> datetime.datetime:
    return _START + datetime.timedelta(hours=7 * number)


def _mixed_missing(number: int, row: Row) -> str:
    return random.Random(number).choice(["", "NA", "n/a", "NULL", "-", "?", row["age"], row["age"]])


def _many_missing() -> list[Row]:
    rows = with_column(visits(), "income", lambda number, row: "" if number % 10 else 1000 + number)
    return with_column(rows, "empty", lambda number, row: "")


def _all_ids() -> list[Row]:
    rows = with_column(visits(), "uuid", lambda n, row: f"{random.Random(n).getrandbits(64):016x}")
    return with_column(rows, "customer", lambda n, row: 100_000 + random.Random(n).randrange(250))


def _huge_integers(number: int, row: Row) -> int:
    return (1 << 60) + number * 1_000


STRANGERS = (
    Stranger(
        name="money", ugly="'$1,234.50'", write=column("price", lambda n, row: f"${1000 + n * 7.5:,.2f}")
    ),
    Stranger(
        name="money_behind",
        ugly="'1.234,50 €'",
        write=column("preis", lambda n, row: f"{n // 10 + 1}.{n % 1000:03},50 €"),
    ),
    Stranger(name="percent", ugly="'12.5%'", write=column("rate", lambda n, row: f"{n % 80 / 2}%")),
    Stranger(name="thousands", ugly="'12,345'", write=column("people", lambda n, row: f"{1000 + n * 37:,}")),
    Stranger(
        name="dates",
        ugly="'2024-01-31' and '31.01.2024 06:30'",
        write=csv_file(
            lambda: with_column(
                with_column(visits(), "day", lambda n, row: _moment(n).date()),
                "am",
                lambda n, row: f"{_moment(n):%d.%m.%Y %H:%M}",
            )
        ),
    ),
    Stranger(
        name="timestamps",
        ugly="ISO with zone, and unix seconds",
        write=csv_file(
            lambda: with_column(
                with_column(visits(), "at", lambda n, row: f"{_moment(n).isoformat()}Z"),
                "unix",
                lambda n, row: 1_700_000_000 + n,
            )
        ),
    ),
    Stranger(
        name="sentinels",
        ugly="-999 and 9999 mean missing",
        write=column("temperature", lambda n, row: [-999, 9999, n % 30, n % 25 + 0.5, 12][n % 5]),
    ),
    Stranger(name="ids", ugly="a uuid, and 250 customer numbers", write=csv_file(_all_ids)),
    Stranger(name="leading_zeros", ugly="'00123'", write=column("plz", lambda n, row: f"{n % 40:05}")),
    Stranger(name="constant", ugly="one value only", write=column("country", lambda n, row: "CH")),
    Stranger(
        name="leak",
        ugly="a column that gives the label away",
        write=column("outcome", lambda n, row: "B1" if row["bought"] == "yes" else "B0"),
    ),
    Stranger(
        name="spellings",
        ugly="'Bern', 'bern', ' BERN '",
        write=column(
            "town", lambda n, row: [row["city"], row["city"].lower(), f" {row['city'].upper()} "][n % 3]
        ),
    ),
    Stranger(name="missing_mixed", ugly="'', NA, n/a, NULL, - and ?", write=column("income", _mixed_missing)),
    Stranger(
        name="missing_most", ugly="90% missing, and a column without a cell", write=csv_file(_many_missing)
    ),
    Stranger(
        name="huge_numbers",
        ugly="integers near 2^60, floats of 1e30",
        write=csv_file(
            lambda: with_column(
                with_column(visits(), "big", _huge_integers), "far", lambda n, row: f"{(n + 1) * 1e30:g}"
            )
        ),
        ends=True,
    ),
    Stranger(
        name="infinities",
        ugly="inf, -inf and nan among numbers",
        write=column("ratio", lambda n, row: ["inf", "-inf", "nan", n / 7][min(n % 40, 3)]),
        ends=True,
    ),
    Stranger(
        name="late_text",
        ugly="a number column with one word in row 290",
        write=column("score", lambda n, row: "unknown" if n == 290 else n % 50),
    ),
    Stranger(
        name="booleans",
        ugly="TRUE, false, T, 0",
        write=column("member", lambda n, row: ["TRUE", "false", "T", "0"][n % 4]),
    ),
    Stranger(
        name="wide",
        ugly="5,000 columns",
        write=csv_file(
            lambda: [
                {**{f"c{i}": f"{(n * i) % 97 / 7:.3f}" for i in range(5_000)}, "bought": row["bought"]}
                for n, row in enumerate(visits(60))
            ]
        ),
    ),
)
