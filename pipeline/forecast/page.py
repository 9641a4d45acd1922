"""Forecasts as sections, for the terminal, a page and JSON."""

from collections.abc import Iterator, Mapping, Sequence

from pipeline.forecast.stages import LARGEST, Band, Forecast, Stage, by_layer, memory_by_layer
from pipeline.report import formats
from pipeline.report.section import Facts, Note, Section, Table

ESTIMATE = (
    "Estimates of a TPU's compiler and of a model of its links, and bounds from peaks: nothing ran on this "
    "hardware."
)
_LAYERS = 8
_NAME = 11  # letters of such a line that hold its name, such as `validation `


def head(
    forecasts: Sequence[Forecast],
    rehearsal: Stage | None,
    *,
    told: Sequence[str] = (),
    about: Mapping[str, str] | None = None,
) -> Section:
    """A row for each target.

    Args:
      told: lines about the experiment, as training begins with them; each has a name first.
      about: what a page of last month must say of itself: command, day and versions.
    """
    rows = [
        [
            each.target.name,
            _answer(each),
            formats.count(each.batch * each.target.devices),
            memory(each),
            time(each.band),
            utilisation(each),
            _largest(each),
        ]
        for each in forecasts
    ]
    header = ["target", "", "batch", "memory of a device", "a step", "MFU", "largest batch of a device"]
    parts = [Table(header=header, rows=rows, numbers={2}), Note(text=ESTIMATE)]
    named = [(each[:_NAME].strip(), each[_NAME:]) for each in told]
    lines = [Facts(items=named) if told else None, *(_lines([rehearsal]) if rehearsal else ())]
    if about:
        parts.append(Note(text=f"Made on {about['day']} with {about['versions']}, by: {about['command']}"))
    return Section(title="Preflight", parts=[*lines, *parts])


def section(forecast: Forecast) -> Section:
    """All that is known of one target."""
    weighed = forecast.weighed
    facts = Facts(
        items={
            "accelerator": f"{forecast.target.accelerator.name}, "
            f"{forecast.target.devices} device{'s' if forecast.target.devices > 1 else ''}",
            "examples a device": formats.count(forecast.batch),
            "memory of a device": memory(forecast),
            "weights, optimizer, averages": ", ".join(
                formats.size(each) for each in (weighed.weights, weighed.optimizer, weighed.averages)
            ),
            "operations a step": f"{formats.power(forecast.flops)}, of a device" if forecast.flops else "",
            "a step": time(forecast.band),
            "examples/s": _rate(forecast),
            "MFU": utilisation(forecast),
        }
    )
    layers = [[name, formats.percent(share)] for name, share in by_layer(forecast, most=_LAYERS)]
    table = Table(header=["layer", "cycles"], rows=layers, numbers={1}, title="Where the cycles go")
    kept = [[name, *map(formats.size, sizes)] for name, *sizes in memory_by_layer(forecast, most=_LAYERS)]
    held = Table(
        header=["layer", "weights", "outputs, at most"],
        rows=kept,
        numbers={1, 2},
        title="Where the memory goes, beside optimizer and averages",
    )
    return Section(
        title=f"{forecast.target.name}, batch {formats.count(forecast.batch * forecast.target.devices)}",
        parts=[*_lines(forecast.stages), facts, table if layers else None, held],
        good=forecast.is_good,
    )


def as_json(
    forecasts: Sequence[Forecast],
    rehearsal: Stage | None,
    plan: Mapping,
    *,
    told: Sequence[str],
    about: Mapping[str, str],
) -> dict:
    return {
        "note": ESTIMATE,
        "about": about,
        "told": list(told),
        "rehearsal": _stage(rehearsal) if rehearsal else None,
        "plan": plan,
        "targets": [
            {
                "target": each.target.name,
                "good": each.is_good,
                "batch_of_a_device": each.batch,
                "used_bytes": each.used_bytes,
                "available_bytes": each.available_bytes,
                "flops": each.flops,
                "seconds": [each.band.low, each.band.high] if each.band else None,
                "largest_batch_of_a_device": each.largest_batch or None,
                "refused_batch_of_a_device": each.refused_batch or None,
                "stages": list(map(_stage, each.stages)),
                "cycles": dict(by_layer(each, most=_LAYERS)),
                "layers": [
                    dict(zip(("name", "weight_bytes", "output_bytes"), layer, strict=True))
                    for layer in memory_by_layer(each, most=_LAYERS)
                ],
            }
            for each in forecasts
        ],
    }


def _stage(stage: Stage) -> dict[str, object]:
    findings = list(map(str, stage.findings))
    return {"name": stage.name, "good": stage.is_good, "verdict": stage.verdict, "findings": findings}


def _lines(stages: Sequence[Stage]) -> Iterator[object]:
    for stage in stages:
        yield f"{stage.name}: {stage.verdict}"
        yield from stage.findings


def memory(forecast: Forecast) -> str:
    if not forecast.used_bytes:
        return ""
    return f"{formats.size(forecast.used_bytes)} of {formats.size(forecast.available_bytes)}"


def time(band: Band | None) -> str:
    """The band of a step, or the least that it takes."""
    if band is None:
        return ""
    low, high = formats.step_time(band.low), formats.step_time(band.high)
    return f"at least {low}" if low == high else f"{low} to {high}"


def utilisation(forecast: Forecast) -> str:
    if forecast.band is None or not forecast.compiled:
        return ""  # nothing was compiled: the least time is that of products at the peak
    least, most = forecast.band.utilisation(forecast.flops, forecast.target.accelerator.teraflops * 1e12)
    return f"at most {most:.1%}" if least == most else f"{least:.1%} to {most:.1%}"


def _answer(forecast: Forecast) -> str:
    for stage in forecast.stages:
        if stage.is_good is False:
            return f"no: {stage.name}"
    return "ok" if forecast.used_bytes <= forecast.available_bytes else "may not fit"


def _largest(forecast: Forecast) -> str:
    batch = forecast.largest_batch
    if not batch:
        return ""
    refused = f"; {formats.count(forecast.refused_batch)} does not fit" if forecast.refused_batch else ""
    return f"{'at least ' if batch >= LARGEST else ''}{formats.count(batch)}{refused}"


def _rate(forecast: Forecast) -> str:
    if forecast.band is None:
        return ""
    batch = forecast.batch * forecast.target.devices
    slow, fast = batch / forecast.band.high, batch / forecast.band.low
    return (
        f"at most {formats.count(fast)}"
        if slow == fast
        else f"{formats.count(slow)} to {formats.count(fast)}"
    )
