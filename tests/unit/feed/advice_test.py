"""What to change, by what limits."""

import pytest

from pipeline.feed.table import Files, advice
from tests.unit.feed.examples import DECODE, certificate, line


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
