"""The certificate in words."""

from pipeline.data.feed import table
from pipeline.data.feed.slices import parse
from tests.pipeline.data.feed.examples import DECODE, READ, certificate, line


def test_stages_stand_in_order_and_the_limit_is_marked():
    text = table.render(certificate(READ, DECODE), ())
    names = [row.split()[0] for row in text.splitlines()[2:4]]
    assert names == ["read", "decode"]
    assert text.splitlines()[3].endswith("◀ limit")


def test_a_starved_host_is_told_how_many_cores_it_takes():
    text = table.render(certificate(slice_=parse("v5e-8")), ("decode: smaller images.",))
    assert "STARVED: 0.80x of the 10,000 examples/s a host" in text
    assert "6 cores like these are enough, a host of v5e-8 has 224" in text
    assert text.endswith("  - decode: smaller images.")


def test_a_slow_disk_is_not_for_cores_to_mend():
    text = table.render(certificate(line("read", 100.0, wanted_cores=0.1), DECODE), ())
    assert "no number of cores is enough, because read would not be faster" in text


def test_without_a_step_time_the_shortest_is_told():
    text = table.render(certificate(step_ms=None), ())
    assert "feeds steps of 137.50 ms and longer" in text


def test_a_busy_host_is_mentioned():
    assert "warning" in table.render(certificate(others_cores=1.3), ())
    assert "warning" not in table.render(certificate(), ())
