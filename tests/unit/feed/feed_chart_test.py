"""The certificate as a picture."""

import dataclasses
import xml.etree.ElementTree as ElementTree

import pytest

from pipeline.feed import chart, table
from pipeline.report import terminal
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
    origin = {"measured": "2026-11-04 06:00 UTC", "machine": "host<1>, EPYC", "dataset": "census 1.0.0, 5e2a"}
    page = chart.page(certificate(), ("decode: <b>smaller</b> images",), origin)
    assert "2026-11-04 06:00 UTC · host&lt;1&gt;, EPYC · census 1.0.0, 5e2a" in page
    assert "decode: &lt;b&gt;smaller&lt;/b&gt; images" in page
    assert "<script" not in page


def test_a_limit_whose_bar_is_longer_than_anothers_says_why():
    # `read` had a fifth of the cores that its 100 µs an example could use: 4 cores give 40,000 a second.
    read = dataclasses.replace(READ, examples_per_s=8_000.0, cpu_us=100.0, wanted_cores=4.0)
    measured = certificate(read, DECODE)
    assert measured.limiting is DECODE
    why = (
        "with the cores to itself decode gives 10,000 examples/s, and read, which was measured slower, 40,000"
    )
    assert measured.why_limiting == why
    assert f"Why the limit is red: {why}." in chart.page(measured, (), {})
    assert why in terminal.render(table.sections(measured, ()))
    assert certificate(READ, DECODE).why_limiting is None
