"""What was gathered of each span, merged, is what one conversion of all rows gathers: to the last bit."""

import hashlib
import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_jobs.cells.typed import arrow_schema
from pipeline.base.errors import DamagedError
from pipeline.data.dataset import statistics as statistics_lib
from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.schema.feature_types import Categorical, Label, Numeric, Tensor, Text
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import accumulators, encoding
from tests.shared import measuring

SCHEMA = Schema(
    name="s",
    features=(
        Numeric(name="x", missing="mark"),
        Numeric(name="n", number="int64", missing="reject"),
        Categorical(name="c", missing="mark"),
        Text(name="t", missing="mark"),
        Tensor(name="v", dimensions=(3,)),
        Numeric(name="secret", statistics="none", missing="mark"),
        Label(name="y", classes=("no", "yes")),
    ),
)

number = st.sampled_from([0.0, -0.0, 1.0, 0.1, 5e-324, -1e-40, 1e300, -1e308, 2.0**53, 2.0**53 + 2, 7.0])
a_row = st.fixed_dictionaries(
    {
        "x": st.none() | number | st.floats(allow_nan=False, allow_infinity=False, width=32),
        "n": st.integers(-(2**62), 2**62) | st.integers(0, 3),
        "c": st.none() | st.sampled_from(["", "é", "名前", "\x00", "a\nb", "🚰", "a" * 300]),
        "t": st.none() | st.text(max_size=5),
        "v": st.lists(number, min_size=3, max_size=3),
        "secret": st.none() | st.just(1.0),
        "y": st.integers(0, 1),
    }
)


def batch(rows: list[dict]) -> pa.RecordBatch:
    """The rows, each in the place of the hash of its cells: rows that are equal stand at one place."""
    return pa.RecordBatch.from_pylist([{"": order(row), **row} for row in rows], schema=arrow_schema(SCHEMA))


def order(row: dict) -> int:
    return hashlib.blake2b(repr(row).encode(), digest_size=8).digest()[0] % 40  # others may share it


def written(rows: list[dict]) -> bytes:
    """What a conversion of these rows writes of the split."""
    return encoding.dumps_accumulator(measuring.gathered(SCHEMA, batch(rows)))


def together(spans: list[list[dict]]) -> SplitStatistics:
    parts = [encoding.loads_accumulator(written(rows), SCHEMA) for rows in spans]
    return encoding.results(encoding.merged(parts, SCHEMA), SCHEMA)


def content(found: SplitStatistics) -> bytes:
    return statistics_lib.dumps({"train": found})


@pytest.fixture(scope="module", params=[(7, 4), (1 << 14, 100_000)], ids=["full", "roomy"])
def limits(request: pytest.FixtureRequest):
    """Numbers that a sample holds, and values that are counted: few, so that both run over; and the usual."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accumulators, "SAMPLE_ROWS", request.param[0])
        patch.setattr(accumulators, "MAXIMUM_DISTINCT", request.param[1])
        yield


@settings(max_examples=60)
@given(st.lists(st.lists(a_row, max_size=12), min_size=1, max_size=5), st.integers(0, 5), st.randoms())
def test_spans_together_are_one_conversion_of_all_rows(limits, spans, repeated, chance: random.Random):
    rows = [row for span in spans for row in span]
    again = chance.sample(rows, min(repeated, len(rows)))  # some rows come in several spans
    spans = [*spans, again]
    chance.shuffle(spans)
    assert content(together(spans)) == content(together([rows + again]))


@settings(max_examples=30)
@given(st.lists(a_row, max_size=20))
def test_the_bytes_are_read_back_and_written_the_same(limits, rows):
    first = written(rows)
    assert encoding.dumps_accumulator(encoding.loads_accumulator(first, SCHEMA)) == first
    assert first == written(rows[::-1])


def rows_of(count: int) -> list[dict]:
    chance = random.Random(count)
    return [
        {
            "x": chance.choice([None, round(chance.random(), 2)]),
            "n": chance.randrange(1000),
            "c": chance.choice("abc"),
            "t": "word",
            "v": [1.0, 2.0, chance.random()],
            "secret": 1.0,
            "y": chance.randrange(2),
        }
        for _ in range(count)
    ]


def test_numbers_take_as_few_bytes_as_they_need():
    names = [f"x{number}" for number in range(10)]
    schema = Schema(name="s", features=tuple(Numeric(name=name) for name in names))
    chance = random.Random(0)
    rows = [
        {"": chance.randrange(1 << 64), **{name: float(chance.randrange(100)) for name in names}}
        for _ in range(2000)
    ]
    gathered = measuring.gathered(schema, pa.RecordBatch.from_pylist(rows, schema=arrow_schema(schema)))
    content = encoding.dumps_accumulator(gathered)
    # The hashes once, at most 8 bytes each; a number below 100 in 7 bits.
    assert len(content) < 2000 * (8 + 10 * 7 / 8) + 10 * 1000


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, left out or put in."""
    changed = bytearray(content)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(changed))
        how = chance.randrange(4)
        if how == 0:
            changed[at] ^= 1 << chance.randrange(8)
        elif how == 1:
            changed[at:] = b"" if at else changed
        elif how == 2:
            changed[at:at] = chance.randbytes(chance.randrange(12))
        else:
            changed[at : at + 9] = b"\xff" * 9
    return bytes(changed)


def test_no_bytes_do_more_than_be_refused():
    content = written(rows_of(50))
    chance = random.Random(1)
    refused = 0
    for _ in range(800):
        try:
            gathered = encoding.loads_accumulator(damaged(content, chance), SCHEMA)
        except DamagedError:
            refused += 1
        else:
            encoding.results(gathered, SCHEMA)
    assert refused > 500


def test_a_file_of_another_schema_version_or_length_is_refused():
    file = encoding.dumps({"train": written(rows_of(3))}, SCHEMA)
    assert encoding.loads(file, SCHEMA) == {"train": written(rows_of(3))}
    other = Schema(name="s", features=SCHEMA.features[1:])
    for content, schema, reason in (
        (file, other, "another schema"),
        (file.replace(b"accumulators/1", b"accumulators/2"), SCHEMA, "does not begin with"),
        (file + b"\0", SCHEMA, "1 bytes too many"),
        (file[:-1], SCHEMA, "beyond the end"),
    ):
        with pytest.raises(DamagedError, match=reason):
            encoding.loads(content, schema)


def test_samples_of_another_size_are_refused(monkeypatch):
    file = encoding.dumps({}, SCHEMA)
    monkeypatch.setattr(accumulators, "SAMPLE_ROWS", 1 << 15)
    with pytest.raises(DamagedError, match="samples of 16,384 numbers"):
        encoding.loads(file, SCHEMA)
