"""Intervals over one axis."""

import math
import re

from pipeline.report.charts import Interval, interval_chart


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
