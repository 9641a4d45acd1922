r"""What an epoch and a run take and cost on each target, by prices that the user gives.

A file of prices is JSON, with the day on which they were read:

  {"as_of": "2026-11-01", "currency": "USD", "chip_hour": {"v5e": 1.20, "h100": 4.00}}
"""

import dataclasses
import datetime
import json
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from pipeline.base import accelerators, files
from pipeline.base.errors import InputError, did_you_mean
from pipeline.feed.certificate import Certificate
from pipeline.feed.scaling import hosts_of
from pipeline.forecast.host_feed import rate_of_hosts
from pipeline.forecast.stages import Forecast
from pipeline.report import formats
from pipeline.report.axes import WIDTH, Axes, finite_range, text
from pipeline.report.html import Markup, join, tag
from pipeline.report.section import Figure, Note, Section, Table

_KEYS = ("as_of", "chip_hour", "currency")
_EXAMPLE = '{"as_of": "2026-11-01", "currency": "USD", "chip_hour": {"v5e": 1.2}}'
_OLD_DAYS = 90
_TOUCHING = 14.0  # pixels: the height of a name
_NAME, _LETTER = 110.0, 7.0  # pixels: the least room for a name, and the width of a letter


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prices:
    """Prices of an hour of one chip, by the names of `--target`."""

    as_of: datetime.date
    currency: str
    chip_hour: Mapping[str, float]


def read_prices(path: pathlib.Path) -> Prices:
    """Reads a file of prices; raises InputError that names what is wrong in it."""
    try:
        document = json.loads(files.read_bytes(path), object_pairs_hook=_each_once)
    except (ValueError, UnicodeDecodeError) as error:
        raise _wrong(path, f"no JSON: {error}") from None
    if not isinstance(document, dict) or sorted(document) != list(_KEYS):
        raise _wrong(
            path, f"keys {sorted(document)}" if isinstance(document, dict) else type(document).__name__
        )
    try:
        as_of = datetime.date.fromisoformat(document["as_of"])
    except (TypeError, ValueError):
        raise _wrong(path, f"as_of {document['as_of']!r}") from None
    prices, currency = document["chip_hour"], document["currency"]
    if not isinstance(currency, str) or not currency or not isinstance(prices, dict):
        raise _wrong(path, f"currency {currency!r}, chip_hour {prices!r}")
    known = [each.target for each in accelerators.ACCELERATORS if each.target]
    for name, price in prices.items():
        if name not in known:
            raise _wrong(path, f"a price of {name!r}", did_you_mean(name, known, otherwise="Correct it."))
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 < price < math.inf:
            raise _wrong(path, f"{name}: {price!r}")
    return Prices(as_of=as_of, currency=currency, chip_hour=prices)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Planned:
    """A run on one target. The first number of each pair belongs to the shortest step of the band.

    Attributes:
      rate: examples a second.
      is_fed: whether the step limits the rate; otherwise `hosts` does, which says what delivers the batches.
      is_bounded: whether the band has a longest step, to which the second number of each pair belongs;
        otherwise only the first number means something.
      epoch_h, run_h: hours.
      cost: what the run costs; None where the price is not known.
    """

    name: str
    batch: int
    rate: tuple[float, float]
    hosts: str
    is_fed: bool
    is_bounded: bool
    epoch_h: tuple[float, float]
    run_h: tuple[float, float]
    cost: tuple[float, float] | None

    @property
    def epoch_cost(self) -> tuple[float, float] | None:
        return tuple(each * self.epoch_h[0] / self.run_h[0] for each in self.cost) if self.cost else None


def planned(
    forecasts: Sequence[Forecast],
    *,
    rows: int,
    examples: int,
    certificate: Certificate | None,
    prices: Prices | None,
) -> list[Planned]:
    """The runs of the forecasts that found no obstacle.

    Args:
      rows: rows of an epoch.
      examples: examples of the whole run.
      certificate: the feed of this host, from which the rate of a slice's hosts follows; None: the feed is
        taken for no limit.
    """
    return [
        _planned(each, rows=rows, examples=examples, certificate=certificate, prices=prices)
        for each in forecasts
        if each.fits
    ]


def unplanned(forecasts: Sequence[Forecast], plans: Sequence[Planned]) -> list[str]:
    """The targets of forecasts without a plan; with their batch, where another batch of it has one."""
    named, done = {each.name for each in plans}, {(each.name, each.batch) for each in plans}
    missing = [(each.target.name, each.batch * each.target.devices) for each in forecasts]
    missing = [each for each in missing if each not in done]
    return list(dict.fromkeys(f"{name} with {size:,}" if name in named else name for name, size in missing))


def _planned(
    forecast: Forecast, *, rows: int, examples: int, certificate: Certificate | None, prices: Prices | None
) -> Planned:
    target, band = forecast.target, forecast.band
    batch = forecast.batch * target.devices
    most = rate_of_hosts(certificate, target) if certificate else math.inf
    rate = (min(batch / band.low, most), min(batch / band.high, most))
    # A run, and an epoch, are whole steps.
    run_h = tuple(-(-examples // batch) * batch / each / 3600 for each in rate)
    price = prices.chip_hour.get(target.generation) if prices else None
    return Planned(
        name=target.name,
        batch=batch,
        rate=rate,
        hosts="the hosts' feed" if hosts_of(target.generation, target.chips) else "this host's feed",
        is_fed=most >= batch / band.low,
        is_bounded=band.low < band.high,
        epoch_h=tuple(max(rows, batch) / each / 3600 for each in rate),
        run_h=run_h,
        cost=None if price is None else tuple(hours * target.chips * price for hours in run_h),
    )


def section(
    plans: Sequence[Planned],
    prices: Prices | None,
    *,
    examples: int,
    without: Sequence[str],
    today: datetime.date,
) -> Section:
    """A row for each run, the cheapest first, and a chart of time against cost; without prices, the fastest.

    Runs of which only a bound is known come last.

    Args:
      examples: examples of the whole run.
      without: names of forecasts whose time is not known, or whose step is too large.
    """
    ranked = sorted(
        plans, key=lambda each: (not each.is_bounded, not each.cost, (each.cost or each.run_h)[0])
    )
    currency = prices.currency if prices else ""
    rows = [
        [
            each.name,
            formats.count(each.batch),
            _pair(each, each.rate, formats.count, word="at most", order=-1),
            _pair(each, each.epoch_h, _hours),
            _pair(each, each.run_h, _hours),
            *(
                _pair(each, cost, _money) if cost else ("no price" if prices else "")
                for cost in (each.epoch_cost, each.cost)
            ),
            "" if each.is_fed else f"{each.hosts} limits it",
        ]
        for each in ranked
    ]
    costs = [f"{currency} an epoch", f"{currency} the run"] if prices else ["", ""]
    header = ["target", "batch", "examples/s", "an epoch", "the run", *costs, ""]
    return Section(
        title="Plan",
        parts=[
            Table(header=header, rows=rows, numbers={1}),
            Note(text=f"The run is {formats.count(examples)} examples. {_note(prices, today)}"),
            Note(text=f"No plan for {'; '.join(without)}: no time is forecast, or the step may not fit.")
            if without
            else None,
            _chart(ranked, currency) if prices else None,
        ],
    )


def as_json(plans: Sequence[Planned], prices: Prices | None) -> dict:
    """What `section` shows."""
    given = dataclasses.asdict(prices) | {"as_of": prices.as_of.isoformat()} if prices else None
    return {"prices": given, "runs": [dataclasses.asdict(each) for each in plans]}


def _note(prices: Prices | None, today: datetime.date) -> str:
    if prices is None:
        return f"--prices=FILE adds costs: {_EXAMPLE}. No price is known here; read your provider's."
    said = f"Prices of a chip's hour as of {prices.as_of}, from your file."
    days = (today - prices.as_of).days
    if days < 0:
        return f"{said} That day is in the future."
    return f"{said} They are {days} days old: look whether they still hold." if days > _OLD_DAYS else said


def _chart(plans: Sequence[Planned], currency: str) -> Figure | None:
    """A chart with a line for each run, whose cost is in proportion to its time."""
    drawn = [each for each in plans if each.cost]
    if not drawn:
        return None
    hours, costs = [each.run_h for each in drawn], [each.cost for each in drawn]
    names = {each.name for each in drawn}
    letters = max(len(_name([each for each in drawn if each.name == name])) for name in names)
    named = max(_NAME, 12.0 + _LETTER * letters)  # pixels
    axes = Axes(
        x_range=finite_range([0.0], *hours, margin=0.05),
        y_range=finite_range([0.0], *costs, margin=0.05),
        width=WIDTH - _NAME + named,
        right=named,
        top=24.0,
    )
    drawing = axes.svg(
        axes.frame(x_title="hours of the run", y_title=currency),
        *(_line(axes, each) for each in drawn),
        *_names(axes, drawn),
        label="Time of the run against its cost",
    )
    return Figure(
        title="Time against cost",
        drawing=drawing,
        note="each line: from the least time to the estimate; a dot alone: only the least is known",
    )


def _line(axes: Axes, plan: Planned) -> Markup:
    return join(
        tag("path", d=axes.path(plan.run_h, plan.cost), class_="line first"),
        tag("path", d=axes.dots(plan.run_h, plan.cost), class_="dots first"),
    )


def _names(axes: Axes, plans: Sequence[Planned]) -> Iterator[Markup]:
    """The names beside the ends of the lines; lines that end together share a name, with their batches."""
    at: dict[tuple[str, int, int], list[Planned]] = {}
    for each in plans:
        x, y = axes.x(each.run_h[1]), axes.y(each.cost[1])
        at.setdefault((each.name, round(x / _TOUCHING), round(y / _TOUCHING)), []).append(each)
    for group in at.values():
        x, y = axes.x(group[0].run_h[1]), axes.y(group[0].cost[1])
        yield text(_name(group), x=x + 8, y=y + 4, style="start")


def _name(group: Sequence[Planned]) -> str:
    return f"{group[0].name}: {', '.join(formats.count(each.batch) for each in group)}"


def _pair(plan: Planned, pair: tuple[float, float], write, *, word: str = "at least", order: int = 1) -> str:
    first, last = map(write, pair[::order])
    if first == last and plan.is_bounded:
        return first
    return f"{first} to {last}" if plan.is_bounded else f"{word} {first}"


def _hours(hours: float) -> str:
    seconds = 3600 * hours
    return formats.step_time(seconds) if seconds < 1 else formats.duration(seconds)


def _money(amount: float) -> str:
    return f"{amount:,.2f}" if amount >= 0.01 else f"{amount:.2g}"


def _each_once(pairs: Sequence[tuple[str, object]]) -> dict:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise ValueError("a key stands there twice")
    return document


def _wrong(path: pathlib.Path, received: str, action: str = "") -> InputError:
    return InputError(
        f"--prices={path}",
        received=received,
        expected=f"a file such as {_EXAMPLE}, with prices above 0 by the names of --target",
        action=action or "Correct the file.",
    )
