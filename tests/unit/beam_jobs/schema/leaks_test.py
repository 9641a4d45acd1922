"""A column that gives the label away is told; one that only helps is not."""

import random

import pytest

from beam_jobs.schema.features import leaving_out
from beam_jobs.schema.proposal import propose_from
from beam_jobs.sources.formats import open_source
from beam_jobs.sources.source import Input

DRAW = random.Random(1)
ROWS = [
    {
        "helps": "yes" if DRAW.random() < 0.8 * bought else "no",
        "refund €": round(DRAW.uniform(1, 9), 3) if bought else 0,
        "status": "shipped" if bought else "open",
        "price": price,
        "¢": round(100 * price) + 7,
        "bought": ("no", "yes")[bought],
    }
    for bought, price in ((DRAW.random() < 0.4, DRAW.uniform(1, 500)) for _ in range(1000))
]


@pytest.mark.parametrize(
    ("label", "leaks"), [("bought", ["refund €", "status"]), ("price", ["¢"]), ("helps", [])]
)
def test_what_tells_the_label_alone_is_told(label: str, leaks: list[str], tmp_path):
    raw = tmp_path / "shop.csv"
    lines = [",".join(map(str, row.values())) for row in ROWS]
    raw.write_text("\n".join([",".join(ROWS[0]), *lines]) + "\n")
    inputs = [Input(location=str(raw))]
    review = propose_from(open_source("csv"), inputs, label=label, max_rows=1000).review
    told = [remark for remark in review if "alone tells the class" in remark or "in other words" in remark]
    assert [remark.split("'")[1] for remark in told] == leaks
    assert all(f"{leaving_out(name)}." in remark for name, remark in zip(leaks, told, strict=True))
