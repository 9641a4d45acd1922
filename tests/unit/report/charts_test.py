"""Axes and intervals: labels stay inside the picture, and equal lengths are equal."""

import math
import re

import pytest

from pipeline.report import axes, formats
from pipeline.report.charts import Interval, interval_chart

ADVANCE = 7.0  # pixels of a digit in text of 12, about


def labels(low: float, high: float) -> list[str]:
    drawn = axes.Axes(x_range=(0, 1), y_range=(low, high))
    frame = str(drawn.frame(x_title="", x_format=formats.number, y_format=formats.number))
    return re.findall(r'class="end">([^<]*)<', frame)


@pytest.mark.parametrize(
    "bounds", [(0, 1.7e11), (-4e12, 4e12), (0, 383_000.0), (-0.5, 1.0), (0, 3e-9), (1e6, 1.5e6)]
)
def test_labels_of_any_size_fit_beside_the_picture(bounds):
    drawn = labels(*bounds)
    assert len(set(drawn)) == len(axes.ticks(bounds))
    assert max(len(label) for label in drawn) * ADVANCE <= axes.Axes.left - 6


@pytest.mark.parametrize(
    ("bounds", "write", "expected"),
    [
        ((0.9799, 0.97995), formats.fraction, ["0.97990", "0.97992", "0.97994"]),
        ((0.9, 1.0), formats.fraction, ["0.9000", "0.9500", "1.0000"]),
        ((0.0, 0.0007), formats.percent, ["0.00 %", "0.02 %", "0.04 %", "0.06 %"]),
        ((0.99991, 0.99999), formats.percent, ["99.992 %", "99.994 %", "99.996 %", "99.998 %"]),
        ((1234.1, 1234.9), formats.number, ["1234.2", "1234.4", "1234.6", "1234.8"]),
        ((1e9, 1e9 + 5), formats.number, ["1000000000", "1000000002", "1000000004"]),
    ],
)
def test_no_two_ticks_read_the_same_and_all_fit(bounds, write, expected):
    at = axes.ticks(bounds)
    assert axes.tick_labels(at, write, 7) == expected
    assert axes.label_room(bounds, write) >= max(map(len, expected)) * ADVANCE + 6


def test_large_values_have_a_power_of_ten():
    assert labels(0, 1.7e11) == ["0", "5e10", "1e11", "1.5e11"]
    assert labels(0, 383_000.0) == ["0", "100,000", "200,000", "300,000"]


def chart(*intervals, **more):
    figure = interval_chart("Better by", intervals, x_title="log loss", **more)
    return figure and figure.drawing


def ends(drawing):
    """Left and right end of each interval, in pixels."""
    return [
        tuple(map(float, found))
        for found in re.findall(r'd="M([\d.]+) [\d.]+H([\d.]+)" class="line', drawing)
    ]


def test_equal_intervals_have_equal_lengths_wherever_they_lie():
    one = Interval(label="men", low=-1.0, value=0.0, high=1.0)
    other = Interval(label="women", low=4.0, value=5.0, high=6.0)
    (a, b), (c, d) = ends(chart(one, other))
    assert b - a == (d - c)
    assert c > b


def test_the_mark_stands_where_zero_is():
    drawing = chart(Interval(label="all", low=0.0, value=1.0, high=2.0))
    (mark,) = re.findall(r'd="M([\d.]+) 8V[\d.]+" class="line guess"', drawing)
    assert float(mark) == ends(drawing)[0][0]


def test_a_label_cannot_become_markup():
    drawing = chart(Interval(label="<b>&", low=0.0, value=1.0, high=2.0))
    assert "&lt;b&gt;&amp;" in drawing
    assert "<b>&" not in drawing


def test_what_has_no_interval_is_left_out():
    known = Interval(label="all", low=0.0, value=1.0, high=2.0)
    unknown = Interval(label="few", low=math.nan, value=1.0, high=math.nan)
    assert len(ends(chart(known, unknown))) == 1
    assert chart(unknown) is None


def test_a_single_point_is_drawn():
    assert "NaN" not in chart(Interval(label="all", low=0.0, value=0.0, high=0.0))
