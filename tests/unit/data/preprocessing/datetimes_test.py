"""Times as a model gets them, from records and from requests, held against Python's datetime."""

import datetime
import math
import zoneinfo

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from beam_jobs.cells.typed import parse
from pipeline.data.dataset.statistics import FeatureStatistics, NumericSummary
from pipeline.data.preprocessing.datetimes import WIDTH, texts_of, time_columns
from pipeline.data.preprocessing.requests import clean_requests
from pipeline.data.schema import times
from pipeline.data.schema.feature_types import Datetime
from pipeline.data.schema.schema import Schema
from pipeline.data.schema.times import FORMATS
from tests.shared.moments import microseconds

ZONES = ("UTC", "Europe/Zurich", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu")
FIRST, LAST = datetime.datetime(1, 1, 3), datetime.datetime(9999, 12, 29)
TIMES = ("", " %H:%M", "T%H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", "T%H:%M:%SZ")


def measured(mean: float = 0.0, std: float = 1.0) -> FeatureStatistics:
    numeric = NumericSummary(minimum=mean, maximum=mean, mean=mean, std=std, zeros=0, quantiles=())
    return FeatureStatistics(name="t", dtype="int64", present=1, missing=0, numeric=numeric)


def requested(feature: Datetime, texts: list[str]) -> list[int]:
    """What a serving signature reads of these texts."""
    schema = Schema(name="s", features=(feature,))
    return clean_requests({"t": tf.constant(texts)}, schema)["t"].numpy().tolist()


@settings(max_examples=12, deadline=None)
@given(
    moments=st.lists(st.datetimes(FIRST, LAST), min_size=1, max_size=40),
    format=st.sampled_from(FORMATS),
    time=st.sampled_from(TIMES),
    zone=st.sampled_from(ZONES),
)
def test_the_conversion_and_a_request_read_what_python_reads(moments, format, time, zone):
    feature = Datetime(name="t", format=format, zone=zone)
    time = ("Z" if "Z" in time else "") if "%H" in format else time
    # `strftime` writes the year 7 as `7` on some platforms.
    written = [moment.strftime((format + time).replace("%Y", f"{moment.year:04}")) for moment in moments]
    read = [datetime.datetime.strptime(text, (format + time).replace("Z", "%z")) for text in written]
    info = zoneinfo.ZoneInfo(zone)
    expected = [microseconds(moment if moment.tzinfo else moment.replace(tzinfo=info)) for moment in read]
    column = parse(feature, pa.array(written))
    assume(not column.problems)  # a time that the clocks of the zone skip
    assert column.values.to_pylist() == expected
    assert requested(feature, written) == expected


@pytest.mark.parametrize("zone", [*ZONES, "America/Sao_Paulo", "Pacific/Apia"])
def test_both_refuse_the_times_that_clocks_skip(zone):
    """Every quarter of an hour around the changes of a zone, and the days."""
    changes = np.array(times.zone_changes(zone).wall, np.int64)
    steps = np.arange(-8, 8) * 900
    local = (changes[(changes > 0) & (changes < 2e9)][:40, None] + steps).ravel()
    texts = [str(moment).replace("T", " ") for moment in local.astype("datetime64[s]")]
    texts += [text.partition(" ")[0] for text in texts]
    feature = Datetime(name="t", zone=zone, missing="mark")
    column = parse(feature, pa.array(texts))
    assert bool(column.problems) == (zone != "UTC")
    stored = [
        times.NOT_A_TIME if row in column.problems else value
        for row, value in enumerate(column.values.to_pylist())
    ]
    assert requested(feature, texts) == stored


@settings(max_examples=12, deadline=None)
@given(
    texts=st.lists(st.text("0123456789-/: T.Z+apm", max_size=24), min_size=1, max_size=40),
    format=st.sampled_from(FORMATS),
)
def test_both_call_the_same_texts_no_date(texts, format):
    feature = Datetime(name="t", format=format, missing="mark")
    stored = parse(feature, pa.array(texts)).values.fill_null(times.NOT_A_TIME).to_pylist()
    assert requested(feature, texts) == stored


@settings(max_examples=12, deadline=None)
@given(
    moments=st.lists(st.integers(times.FIRST, times.LAST), min_size=1, max_size=40),
    format=st.sampled_from(FORMATS),
)
def test_stored_times_are_spelled_as_texts_that_are_read_as_them(moments, format):
    feature = Datetime(name="t", format=format, zone="Europe/Zurich", missing="mark")
    moments = [*moments, times.FIRST, times.LAST, times.NOT_A_TIME]
    assert requested(feature, texts_of(feature, np.array(moments))) == moments


@settings(max_examples=12, deadline=None)
@given(moments=st.lists(st.datetimes(FIRST, LAST), min_size=1, max_size=40), zone=st.sampled_from(ZONES))
def test_columns_lie_on_the_clocks_of_the_zone(moments, zone):
    info = zoneinfo.ZoneInfo(zone)
    aware = [moment.replace(tzinfo=datetime.UTC) for moment in moments]
    stored = tf.constant([microseconds(moment) for moment in aware], tf.int64)
    found = time_columns(Datetime(name="t", zone=zone), measured())(stored).numpy()
    for row, moment in zip(found, aware, strict=True):
        local = moment.astimezone(info)
        second = local.hour * 3600 + local.minute * 60 + local.second
        angles = [
            2 * math.pi * part for part in (second / 86_400, local.weekday() / 7, (local.month - 1) / 12)
        ]
        expected = [side for angle in angles for side in (math.sin(angle), math.cos(angle))]
        np.testing.assert_allclose(row[1:], expected, atol=2e-6)


def test_the_time_is_standardized_without_a_loss_that_matters():
    """Microseconds near 1.7e15, an hour in all: in float32 they would be a few values."""
    stored = np.int64(1_700_000_000_000_000) + np.arange(0, 3_600_000_000, 7_000_000)
    mean, std = float(stored.mean()), float(stored.std())
    found = time_columns(Datetime(name="t"), measured(mean, std))(tf.constant(stored))[:, 0]
    np.testing.assert_allclose(found, (stored - mean) / std, atol=1e-6)


def test_reading_and_serving_give_the_same_bits():
    """A function that serves is optimized in another way than one of a dataset."""
    stored = tf.constant(np.random.default_rng(0).integers(1.5e15, 1.7e15, 5_000))
    columns = time_columns(Datetime(name="t", zone="Europe/Zurich"), measured(1.6e15, 5.77e13))
    serve = tf.function(columns, autograph=False, input_signature=[tf.TensorSpec([None], tf.int64)])
    read = next(iter(tf.data.Dataset.from_tensors(stored).map(columns)))
    np.testing.assert_array_equal(serve(stored), read)


@pytest.mark.parametrize(
    "moment", [times.NOT_A_TIME, times.NOT_A_TIME + 1, (1 << 63) - 1, times.FIRST, times.LAST]
)
def test_a_missing_or_extreme_time_gives_finite_columns(moment: int):
    columns = time_columns(Datetime(name="t", zone="Europe/Zurich"), measured(0.0, 0.0))
    row = columns(tf.constant([moment], tf.int64)).numpy()[0]
    assert row.shape == (WIDTH,)
    assert np.isfinite(row).all()
    assert row.any() == (moment != times.NOT_A_TIME)
