"""A column that gives the label away is told; one that only helps is not."""

import json
import random

import numpy as np
import pytest
import sklearn.metrics

from beam_jobs.schema import leaks
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


@pytest.mark.parametrize("is_among_them", [True, False])
def test_a_list_that_holds_the_chosen_item_itself_is_told(is_among_them: bool, tmp_path):
    draw, lines = random.Random(3), []
    for _ in range(300):
        before, item = [f"i{draw.randrange(40)}" for _ in range(draw.randrange(3))], f"i{draw.randrange(40)}"
        lines.append(json.dumps({"last": [*before, item] if is_among_them else before, "item": item}))
    raw = tmp_path / "choices.jsonl"
    raw.write_text("\n".join(lines))
    inputs = [Input(location=str(raw))]
    source = open_source("jsonl")
    review = propose_from(source, inputs, label="item", task="retrieval", max_rows=1000).review
    told = [remark for remark in review if "holds the chosen 'item' itself in 100.0% of 300 rows" in remark]
    assert len(told) == is_among_them
    assert all(remark.endswith(f"leave them out: {leaving_out('last')}.") for remark in told)


def test_users_and_items_may_be_very_many():
    """A table of all their pairs would take 16 TB."""
    users, items = np.arange(10_000) // 5, np.arange(10_000) * 100_000
    assert leaks._share_predicted(users, items, 0.0) == 0.2


def test_what_nearly_tells_the_label_alone_is_told_with_its_auc(tmp_path):
    draw = np.random.default_rng(2)
    returned = draw.random(2000) < 0.3
    refund = np.where(returned, 1.5, 0) + draw.normal(size=2000) * 0.5
    price = draw.normal(size=2000) + 0.5 * returned
    rows = zip(refund.round(3), price.round(3), np.where(returned, "yes", "no"), strict=True)
    raw = tmp_path / "orders.csv"
    raw.write_text("refund,price,returned\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    review = propose_from(
        open_source("csv"), [Input(location=str(raw))], label="returned", max_rows=9999
    ).review
    (told,) = [remark for remark in review if "ROC AUC" in remark]
    assert told.endswith(f"leave it out: {leaving_out('refund')}.")
    seen = float(told.split("'refund' (")[1].split(")")[0])
    assert seen == pytest.approx(sklearn.metrics.roc_auc_score(returned, refund), abs=0.01)
