"""The certificate as a picture."""

import xml.etree.ElementTree as ElementTree

import pytest

from pipeline.feed import chart
from tests.unit.feed.examples import DECODE, READ, certificate, line


def bars(drawing: str) -> dict[str, str]:
    """Style of each stage's bar by its name."""
    root = ElementTree.fromstring(drawing.partition("\n")[2])
    boxes = [one for one in root.iter() if one.tag.endswith("rect")]
    return {box[0].text.partition(":")[0]: box.get("class") for box in boxes}


def test_the_limit_and_the_whole_stand_out():
    drawn = bars(chart.svg(certificate(READ, DECODE)))
    assert drawn == {"read": "bar-stage", "decode": "bar-limit", "together": "bar-together"}


@pytest.mark.parametrize("rate", [0.01, 3.0, 1e9])
def test_any_rate_stays_inside_the_picture(rate):
    drawing = chart.svg(certificate(line("read", rate), DECODE))
    root = ElementTree.fromstring(drawing.partition("\n")[2])
    for box in (one for one in root.iter() if one.tag.endswith("rect")):
        assert 0 < float(box.get("width")) <= chart.WIDTH - chart.LEFT


def test_what_training_takes_is_drawn_where_it_is_known():
    assert "training takes 10k/s" in chart.svg(certificate(step_ms=100.0))
    assert "training takes" not in chart.svg(certificate(step_ms=None))


def test_the_page_shows_the_advice_and_runs_nothing():
    page = chart.page(certificate(), ("decode: <b>smaller</b> images",))
    assert "decode: &lt;b&gt;smaller&lt;/b&gt; images" in page
    assert "<script" not in page
