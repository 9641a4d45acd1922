"""The feed stage against the certificate's own verdict, and plans against plain arithmetic."""

import dataclasses
import datetime
import json

import pytest

from pipeline.base.errors import InputError
from pipeline.feed.certificate import Certificate, Demand, Host
from pipeline.feed.scaling import HERE, Line, Slice, hosts_of
from pipeline.forecast import host_feed, plan, stages
from pipeline.forecast.stages import Band, Forecast, Stage
from pipeline.forecast.target import targets_of
from pipeline.report import html, terminal

RATE, CPU_US = 40_000.0, 50.0  # of two cores that are busy
(V5E, TPU7X, H100) = targets_of(["v5e:2x4", "tpu7x:2x2x1", "h100:4"])
TODAY = datetime.date(2026, 11, 28)


def certificate(step_ms: float | None = None) -> Certificate:
    line = Line(name="parse", examples_per_s=RATE, cpu_us=CPU_US, bytes_per_example=100.0, wanted_cores=2.0)
    return Certificate(
        stages=(line,),
        together=dataclasses.replace(line, name="together"),
        host=Host(cores=2.0, others_cores=0.0, memory_mb=100.0),
        demand=Demand(global_batch=800, slice=HERE, step_ms=step_ms),
    )


@pytest.mark.parametrize("generation_chips_hosts_cores", [("v5e", 8, 1, 224), ("v5e", 16, 4, 112)])
def test_a_slice_has_the_hosts_of_its_chips(generation_chips_hosts_cores):
    generation, chips, hosts, cores = generation_chips_hosts_cores
    found = hosts_of(generation, chips)
    assert (found.hosts, found.host_cores) == (hosts, cores)


def test_hosts_that_nobody_makes_are_not_known():
    assert hosts_of("h100", 8) is None and hosts_of("v5e", 3) is None
    assert hosts_of("tpu7x", 8) == Slice(name="tpu7x-16", hosts=2, replicas=16, host_cores=224)


# 134 of 224 cores give between 134 / (1.45 × 50 µs) = 1.8 and 134 / (0.9 × 50 µs) = 3.0 million.
@pytest.mark.parametrize(
    ("slowest", "fastest", "word", "is_good"),
    [
        (1_000_000, 1_500_000, "fed", True),
        (1_000_000, 4_000_000, "perhaps input-bound", None),
        (2_000_000, 4_000_000, "perhaps input-bound", None),
        (3_500_000, 4_000_000, "input-bound", False),
    ],
)
def test_hosts_are_judged_by_both_ends_of_the_band(slowest, fastest, word, is_good):
    band = Band(low=800 / fastest, high=800 / slowest)
    stage = host_feed.of_hosts(certificate(), V5E, band, batch=100)
    assert stage.verdict.startswith(f"{word} ") and stage.is_good is is_good


def test_where_only_the_shortest_step_is_known_nothing_is_surely_bound():
    band = Band(low=1e-6, high=1e-6)
    assert host_feed.of_hosts(certificate(), V5E, band, batch=100).is_good is None
    assert host_feed.of_hosts(certificate(), H100, band, batch=100).is_good is None


@pytest.mark.parametrize("step_ms", [10.0, 21.9, 22.1, 60.0])
def test_this_host_is_fed_where_feed_rate_says_so(step_ms):
    band = Band(low=step_ms / 1e3, high=step_ms / 1e3)
    stage = host_feed.of_hosts(certificate(), H100, band, batch=200)
    assert stage.verdict.startswith("fed ") == bool(certificate(step_ms).is_fed)


def forecast(target, *, low: float, high: float) -> Forecast:
    return Forecast(
        target=target, batch=100, stages=(), weighed=None, available_bytes=1.0, band=Band(low=low, high=high)
    )


PRICES = plan.Prices(as_of=datetime.date(2026, 11, 1), currency="USD", chip_hour={"v5e": 1.5, "tpu7x": 9.0})


def test_a_plan_is_examples_by_rate_and_chips_by_price():
    runs = [forecast(V5E, low=0.01, high=0.02), forecast(TPU7X, low=0.002, high=0.002)]
    first, second = plan.planned(runs, rows=36_000, examples=3_600_000, certificate=None, prices=PRICES)
    # 800 examples in 10 to 20 ms on 8 chips; 800 in at least 2 ms on 8 devices, which are 4 chips.
    assert first.rate == (80_000, 40_000) and second.rate == (400_000, 400_000)
    assert first.run_h == pytest.approx((0.0125, 0.025)) and first.epoch_h[0] == pytest.approx(0.000125)
    assert first.cost == pytest.approx((0.0125 * 8 * 1.5, 0.025 * 8 * 1.5))
    assert second.cost[0] == pytest.approx(0.0025 * 4 * 9.0)
    assert first.epoch_cost == pytest.approx((0.0015, 0.003))


def test_hosts_that_deliver_less_limit_the_plan():
    (limited,) = plan.planned(
        [forecast(V5E, low=1e-6, high=2e-6)], rows=1, examples=1, certificate=certificate(), prices=None
    )
    assert limited.rate[0] == limited.rate[1] == host_feed.rate_of_hosts(certificate(), V5E)
    assert not limited.is_fed and limited.cost is None


def test_hosts_that_are_not_known_give_what_this_one_does():
    (limited,) = plan.planned(
        [forecast(H100, low=1e-4, high=1e-4)], rows=1, examples=1, certificate=certificate(), prices=None
    )
    assert limited.rate == (RATE, RATE) and limited.hosts == "this host's feed"
    stage = host_feed.of_hosts(certificate(), H100, None, batch=1)
    assert "40,000 examples/s" in stage.verdict and stage.is_good is None


def test_what_does_not_fit_is_not_planned():
    large = dataclasses.replace(forecast(V5E, low=1.0, high=2.0), used_bytes=2.0)
    assert plan.planned([large], rows=1, examples=1, certificate=None, prices=None) == []


def test_a_slice_that_refuses_the_step_is_not_planned():
    refused = Stage(name=stages.DATA_PARALLEL, verdict="does not fit", is_good=False)
    alone = forecast(V5E, low=1.0, high=2.0)
    divided = dataclasses.replace(alone, stages=(refused,))
    assert alone.fits and not divided.fits
    assert plan.planned([divided], rows=1, examples=1, certificate=None, prices=None) == []


def test_a_batch_without_a_plan_is_named():
    small, large = forecast(H100, low=1.0, high=1.0), forecast(H100, low=1.0, high=1.0)
    large = dataclasses.replace(large, batch=1_000, used_bytes=2.0)
    nothing = dataclasses.replace(forecast(V5E, low=1.0, high=2.0), band=None)
    every = [small, large, nothing]
    plans = plan.planned(every, rows=1, examples=1, certificate=None, prices=None)
    assert plan.unplanned(every, plans) == ["h100:4 with 4,000", "v5e:2x4"]


def test_a_section_has_the_cheapest_first_and_old_prices_are_told():
    runs = [forecast(V5E, low=0.01, high=0.02), forecast(V5E, low=0.001, high=0.002)]
    plans = plan.planned(runs, rows=36_000, examples=3_600_000, certificate=None, prices=PRICES)
    of_run = {"examples": 3_600_000, "without": ["l4:1"]}
    section = plan.section(plans, PRICES, today=TODAY + datetime.timedelta(days=100), **of_run)
    shown = terminal.render([section])
    assert shown.index("400,000 to 800,000") < shown.index("40,000 to 80,000")
    assert "127 days old" in shown and "3,600,000 examples" in shown and "No plan for l4:1" in shown
    early = dataclasses.replace(PRICES, as_of=TODAY + datetime.timedelta(days=1))
    assert "in the future" in terminal.render([plan.section(plans, early, today=TODAY, **of_run)])
    assert "Time against cost" in html.page(section, [])
    assert "--prices=FILE" in terminal.render([plan.section(plans, None, today=TODAY, **of_run)])


GOOD = {"as_of": "2026-11-01", "currency": "USD", "chip_hour": {"v5e": 1.2}}


def test_prices_are_read(tmp_path):
    (tmp_path / "prices.json").write_text(json.dumps(GOOD))
    assert plan.read_prices(tmp_path / "prices.json").chip_hour == {"v5e": 1.2}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "no JSON"),
        ("[]", "list"),
        ('{"as_of": 1, "as_of": 2}', "twice"),
        (json.dumps({"currency": "USD"}), "keys"),
        (json.dumps(GOOD | {"as_of": "yesterday"}), "yesterday"),
        (json.dumps(GOOD | {"currency": 3}), "currency 3"),
        (json.dumps(GOOD | {"chip_hour": {"v5f": 1.0}}), "v5f.*Did you mean"),
        (json.dumps(GOOD | {"chip_hour": {"v5e": 0}}), "v5e: 0"),
        (json.dumps(GOOD | {"chip_hour": {"v5e": True}}), "v5e: True"),
        (json.dumps(GOOD | {"chip_hour": {"v5e": float("nan")}}), "v5e: nan"),
    ],
)
def test_a_wrong_file_of_prices_is_named_with_what_is_expected(tmp_path, text, words):
    (tmp_path / "prices.json").write_text(text)
    with pytest.raises(InputError, match=f"(?s)prices.json.*{words}"):
        plan.read_prices(tmp_path / "prices.json")
