"""The certificate in words, and what to change by what limits."""

import dataclasses

import pytest

from pipeline.feed import table
from pipeline.feed.certificate import Certificate
from pipeline.feed.measure import Residency
from pipeline.feed.scaling import parse_slices
from pipeline.feed.slowest import Slowest
from pipeline.feed.table import Files, advice
from pipeline.report import terminal
from tests.unit.feed.examples import DECODE, READ, certificate, line


def render(certificate: Certificate, advice: tuple[str, ...]) -> str:
    return terminal.render(table.sections(certificate, advice))


def test_stages_stand_in_order_and_the_limit_is_marked():
    text = render(certificate(READ, DECODE), ())
    names = [row.split()[0] for row in text.splitlines()[2:4]]
    assert names == ["read", "decode"]
    assert text.splitlines()[3].endswith("◀ limit")


def test_a_starved_host_is_told_how_many_cores_it_takes():
    text = render(certificate(slice_=parse_slices("v5e-8")), ("decode: smaller images.",))
    assert "STARVED: 0.80x of the 10,000 examples/s a host" in text
    assert "8 cores like these are enough, a host of v5e-8 has 224" in text
    assert text.endswith("  - decode: smaller images.")


def test_a_slow_disk_is_not_for_cores_to_mend():
    disk = line("read", 100.0, wanted_cores=0.1, at_once=2.0)
    text = render(certificate(disk, DECODE), ())
    assert "no number of cores is enough, because of read, which runs in 2 threads at most" in text


def test_what_waits_in_as_many_calls_as_there_are_cores_may_be_faster_on_more():
    text = render(certificate(line("lookup", 100.0, wanted_cores=0.1)), ())
    assert "how many cores are enough is not known, because lookup waits" in text


def test_calls_that_were_not_seen_to_run_at_once_are_not_promised():
    read = line("read", 5_000.0, wanted_cores=2.0, at_once=8.0)
    shared = certificate(read, DECODE, step_ms=60.0, others_cores=1.0)
    assert "because more calls of read may run at once than could run on these cores" in render(shared, ())


def test_without_a_step_time_the_shortest_is_told():
    text = render(certificate(step_ms=None), ())
    assert "feeds steps of 137.50 ms and longer" in text


def test_a_busy_host_is_mentioned():
    assert "beside    other processes took 1.3 of these cores" in render(certificate(others_cores=1.3), ())
    assert "other processes" not in render(certificate(), ())


def test_cores_that_others_took_are_no_lack_of_cores():
    """Starved beside others, and fed by the same cores without them."""
    beside = certificate(together=4_000.0, step_ms=200.0, others_cores=2.0)
    beside = dataclasses.replace(
        beside, together=dataclasses.replace(beside.together, cpu_us=500.0, wanted_cores=4.0)
    )
    assert "STARVED: 0.80x" in render(beside, ())
    assert "3 cores like these are enough for it alone" in render(beside, ())


def test_a_host_of_a_known_slice_is_told_with_its_own_cores():
    text = render(certificate(step_ms=100.0, slice_=parse_slices("v5e-8")), ())
    assert "expected  at least 34,483 examples/s on the 224 cores of a host of v5e-8" in text
    assert "3.45x of what steps take; the limit there is read" in text


def test_it_tells_what_the_page_cache_held():
    held = certificate(files=Residency(bytes=12_000_000, resident=0.25))
    assert "files     12.0 MB, of which the page cache held 25%" in render(held, ())
    unknown = certificate(files=Residency(bytes=12_000_000, resident=None))
    assert "known only to who may write" in render(unknown, ())


def test_reads_from_the_disk_stand_below_and_may_be_the_limit():
    rows = render(certificate(uncached=line("from disk", 40.0, wanted_cores=0.1)), ()).splitlines()
    (row,) = (row for row in rows if row.startswith("from disk"))
    assert row.endswith("◀ limit")


def test_who_is_fed_needs_no_advice():
    assert advice(certificate(step_ms=1_000.0)) == ()


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        (line("read", 100.0, wanted_cores=0.1), "more cores do not help"),
        (line("read", 100.0, wanted_cores=0.1), "local disk"),
        (line("tokenize", 100.0, wanted_cores=1.0), "Python function"),
        (line("tokenize", 100.0, wanted_cores=1.0), "move its work into the conversion"),
        (line("decode", 100.0), "store the images at the size that training needs"),
        (line("parse", 100.0), "--layout=blocks"),
        (line("augment", 100.0), "on the accelerator"),
    ],
)
def test_it_speaks_of_the_stage_that_limits(stage, words):
    told = " ".join(advice(certificate(stage, line("copy", 1e6))))
    assert stage.name in told
    assert words in told


def test_small_shards_are_named():
    slow = certificate(line("read", 100.0, wanted_cores=0.1), DECODE)
    assert "4,000 shards of 16 KiB" in " ".join(advice(slow, Files(shards=4_000, mean_bytes=16 << 10)))
    assert "KiB" not in " ".join(advice(slow, Files(shards=8, mean_bytes=128 << 20)))


def test_it_says_how_many_cores_are_enough():
    assert "hosts with 8 cores" in advice(certificate(DECODE, step_ms=100.0))[-1]


# A step takes 100 ms for 1,000 examples, so 3,000 that are ready last 0.3 s.
SLOWEST = Slowest(place="a-00000 record 4 (7,000 x 9,000 JPEG)", seconds=0.9, one_in=600, ready=3_000.0)


def test_a_picture_that_takes_longer_than_what_is_ready_lasts_is_named():
    fed = dataclasses.replace(certificate(step_ms=200.0), slowest=SLOWEST)
    text = render(fed, ())
    assert fed.verdict == "FED"
    assert (
        "one example in 600 takes 0.9 s, and what is ready lasts 0.6 s: steps will wait; such as a-0" in text
    )
    assert fed.as_json()["slowest"] == dataclasses.asdict(SLOWEST) | {"hidden_s": pytest.approx(0.6)}


@pytest.mark.parametrize(
    ("seconds", "step_ms", "waits"),
    [(0.29, 100.0, False), (0.31, 100.0, True), (0.4, None, False), (0.42, None, True)],
)
def test_a_picture_that_the_ready_ones_hide_is_not_named(seconds: float, step_ms: float | None, waits: bool):
    slowest = dataclasses.replace(SLOWEST, seconds=seconds)
    found = dataclasses.replace(certificate(step_ms=step_ms), slowest=slowest)  # None: steps of 137.5 ms
    assert ("steps will wait" in render(found, ())) == waits


def test_examples_without_pictures_have_no_slowest_one():
    assert "steps will wait" not in render(certificate(), ())
    assert certificate().as_json()["slowest"] is None
