"""Axes: their labels stay inside the picture, whatever the values."""

import re

import pytest

from pipeline.report import axes, formats

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


def test_large_values_have_a_power_of_ten():
    assert labels(0, 1.7e11) == ["0", "5e10", "1e11", "1.5e11"]
    assert labels(0, 383_000.0) == ["0", "100,000", "200,000", "300,000"]
