"""A record is shown as its raw row was, without what must not leave the records."""

import datetime

from beam_jobs.sources.tfrecord import example_text
from pipeline.data.schema.feature_types import Categorical, Datetime, Image, Label, Numeric, Tokens
from pipeline.data.schema.schema import Schema
from tests.shared.moments import microseconds
from tests.shared.tiny_dataset import serialize

SCHEMA = Schema(
    name="s",
    features=(
        Numeric(name="lon", offset=-73.9),
        Datetime(name="day"),
        Categorical(name="city"),
        Categorical(name="name", statistics="none"),
        Image(name="image"),
        Tokens(name="tokens", length=2, vocabulary_size=9),
        Label(name="y", classes=("no", "yes")),
    ),
)
ROW = {
    "lon": 0.5,
    "day": microseconds(datetime.datetime(2024, 2, 29, 11, tzinfo=datetime.UTC)),
    "city": "Zürich",
    "name": "Anna",
    "image": b"\x89PNG",
    "tokens": [3, 4],
    "y": 1,
}


def test_a_record_is_shown_as_the_raw_row():
    assert example_text(serialize(SCHEMA, ROW), SCHEMA) == (
        "lon=-73.4, day=2024-02-29 11:00:00, city='Zürich', image=4 bytes, tokens=3 4, y='yes'"
    )


def test_long_values_are_cut_and_what_is_no_example_is_not_shown():
    text = example_text(serialize(SCHEMA, ROW | {"city": "x" * 1000}), SCHEMA)
    assert "city='" + "x" * 38 + "…, image" in text
    assert example_text(b"no example", SCHEMA) == ""
