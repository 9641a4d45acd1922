"""The certificate of real pipelines: the slowed one is caught. tests/soak/certificate.py tries many more."""

import pathlib

import pytest

from pipeline.data.input.stages import Recipe
from pipeline.feed.certificate import Certificate, Demand, measure_certificate
from pipeline.feed.measure import Consume
from pipeline.feed.scaling import HERE
from tests.unit.feed.pipelines import BATCH, table
from tests.unit.feed.slowed import TO_CPU, slowed

SECONDS = 0.1  # a stage


def certify(recipe: Recipe, *, step_ms: float, copy: Consume = TO_CPU) -> Certificate:
    demand = Demand(global_batch=BATCH, slice=HERE, step_ms=step_ms)
    return measure_certificate(recipe, demand, copy=copy, seconds=SECONDS)


@pytest.mark.slow
def test_an_undisturbed_pipeline_is_fed(tmp_path: pathlib.Path):
    recipe = table(tmp_path / "table", shuffle="global", rows=1_000)  # which is traced soonest
    found = certify(recipe, step_ms=60_000.0)
    assert [line.name for line in found.stages] == ["read", "parse", "preprocess", "batch", "copy"]
    assert found.verdict == "FED"
    assert all(line.cpu_us > 0 and line.bytes_per_example > 0 for line in found.stages)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["slow disk", "remote lookup", "slow bus"])
def test_the_stage_that_was_slowed_is_named(name: str, tmp_path: pathlib.Path):
    case = slowed(tmp_path)[name]()
    found = certify(case.recipe, step_ms=0.01, copy=case.copy)
    assert found.limiting.name == case.limit
    assert found.verdict == "STARVED"
