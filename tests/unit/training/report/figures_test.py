"""The numbers behind the report's figures."""

import math

import numpy as np
import pytest

from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.schema.feature_types import Datetime, Label
from pipeline.data.schema.schema import Schema
from pipeline.report import formats
from pipeline.report.axes import Axes, ticks
from pipeline.report.charts import MAX_POINTS, Series, equal_bins, histogram, line_chart
from pipeline.report.html import tag
from pipeline.training.report.data import feature_table
from tests.unit.training.report import report_examples as examples


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((0, 2_000), [0, 500, 1_000, 1_500, 2_000]),
        ((0.27, 0.66), [0.3, 0.4, 0.5, 0.6]),
        ((-1, 1), [-1, -0.5, 0, 0.5, 1]),
    ],
)
def test_ticks_are_round(bounds, expected):
    assert ticks(bounds) == expected


@pytest.mark.parametrize("value", [0.0, 7.0, -3.0, 1e-12, 1e12])
def test_a_range_of_one_value_still_has_ticks(value):
    axes = Axes(x_range=(value, value), y_range=(0, 1))
    assert ticks(axes.x_range)


def test_a_line_breaks_at_what_is_not_a_number():
    path = Axes(x_range=(0, 3), y_range=(0, 1)).path([0, 1, 2, 3], [0, math.nan, 1, math.inf])
    assert [command for command in path if command.isalpha()] == ["M", "M"]


def test_a_long_curve_is_thinned_and_keeps_its_last_value():
    series = Series(name="train", xs=range(10_000), ys=[1.0] * 9_999 + [5.0])
    figure = line_chart("Loss", [series])
    assert figure.drawing.count("L") < MAX_POINTS + 10
    assert "train 5" in figure.note


def test_bins_of_uniform_values_are_equally_full():
    np.testing.assert_allclose(equal_bins(np.linspace(0, 100, 101), bins=4).shares, 0.25)


def test_bins_hold_repeated_values_whole():
    values = np.repeat([0, 10], [90, 10])
    bins = equal_bins(np.quantile(values, np.linspace(0, 1, 101)), bins=10)
    assert (bins.low, bins.high) == (0, 10)
    assert bins.shares[0] == pytest.approx(0.9, abs=0.02)
    assert bins.shares.sum() == pytest.approx(1)


def test_one_outlier_does_not_flatten_the_histogram():
    quantiles = [*np.linspace(0, 1, 1_000), 1e9]
    assert equal_bins(quantiles).high < 2


@pytest.mark.parametrize("quantiles", [(), (1.0,), (2.0, 2.0, 2.0), (0.0, math.nan)])
def test_no_histogram_where_there_is_nothing_to_draw(quantiles):
    assert histogram(quantiles) is None


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (formats.number, 1234567.0, "1,234,567"),
        (formats.number, 12.3456, "12.35"),
        (formats.number, 0.00012345, "0.0001234"),
        (formats.number, 1e-9, "1.000e-09"),
        (formats.number, math.nan, "not a number"),
        (formats.percent, 1.0, "100 %"),
        (formats.percent, 0.9999, "> 99.9 %"),
        (formats.percent, 0.0001, "< 0.1 %"),
        (formats.fraction, 0.97, "0.9700"),
        (formats.duration, 3_725, "1 h 02 min"),
        (formats.duration, 59.99, "60 s"),
        (formats.size, 1536, "1.5 KiB"),
        (formats.date, 1_767_231_540_000_000.0, "2026-01-01 01:39"),  # `date -u -d @1767231540`
        (formats.date, 951_782_400_000_000.0, "2000-02-29"),
        (formats.date, -62_135_596_800_000_000.0, "0001-01-01"),
        (formats.date, -9.3e18, "-9.300e+18"),
        (formats.date, math.nan, "not a number"),
    ],
)
def test_quantities_read_well(write, value, text):
    assert write(value) == text


def test_a_table_of_features_has_dates_and_says_no_word_twice():
    moments = np.array([1_767_225_600e6, 1_767_312_000e6, 1_767_398_400e6])  # 1, 2 and 3 January 2026
    features = [
        (Datetime(name="datetime", zone="Europe/Zurich"), examples.numeric("datetime", moments)),
        (Label(name="label", classes=("no", "yes")), examples.categorical("label", {"no": 2, "yes": 1})),
    ]
    schema = Schema(name="any", features=tuple(declared for declared, _ in features))
    measured = SplitStatistics(examples=3, features={each.name: each for _, each in features})
    label, moment = feature_table(measured, schema).rows
    assert (str(label[0]), label[0].note) == ("<b>label</b>", "predicted · binary")
    assert moment[0].note == "dates in UTC; local times: Europe/Zurich"
    assert moment[4:] == ["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-02 ± 0.8165 days"]
    assert "2026-01-01 … 2026-01-03" in moment[2]


def test_text_and_attributes_are_escaped_and_markup_is_not():
    markup = tag("p", "a < b", tag("b", "&"), title='"', stroke_width=1.26, hidden=None)
    assert markup == '<p title="&quot;" stroke-width="1.3">a &lt; b<b>&amp;</b></p>'
