"""Replays recorded requests against a version directory in a fresh process, and measures what it costs."""

import contextlib
import dataclasses
import pathlib
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence

from pipeline.base.errors import InputError
from pipeline.data.dataset import records
from pipeline.exporting import requests as requests_lib
from pipeline.exporting.requests import Requests
from pipeline.report.formats import three_digits
from pipeline.serving.child import Child, ChildError, measure
from pipeline.serving.result import InfraResult, Latency, Limits, Measured, Replayed

_DEFAULT = Limits()
_Start = Callable[[str, pathlib.Path], Child]


# A model is too slow if it is so each time: what else the machine does may slow one measurement.
_MEASUREMENTS = 3


def check(
    directory: pathlib.Path,
    requests: Requests,
    *,
    against: pathlib.Path | None,
    limits: Limits = _DEFAULT,
) -> InfraResult:
    """Checks whether the export at `directory` may serve.

    A failure in the process that loads it becomes a reason of the result, never an exception.

    Args:
      requests: the requests recorded when the model was exported.
      against: the champion's version directory, to compare latency, memory and size with; None: only the
        limits that need no champion apply.
    """
    result = InfraResult(directory=str(directory), against=str(against or ""), reasons=(), limits=limits)
    try:
        records.open_export(directory)
    except InputError as error:
        return dataclasses.replace(result, reasons=[str(error)])
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as processes:
        requests_lib.save(requests, pathlib.Path(folder))

        def start(name: str, model: pathlib.Path) -> Child:
            most = {"seconds": limits.seconds, "process_mib": limits.process_mib}
            return processes.enter_context(Child(model, pathlib.Path(folder), name=name, **most))

        return _checked(result, start, requests)


def _checked(result: InfraResult, start: _Start, requests: Requests) -> InfraResult:
    """Fills the result. The champion's process starts only if the model answers as recorded."""
    try:
        model = start("the process that loads the model", pathlib.Path(result.directory))
        loaded = model.load()
        if reasons := signature_reasons(loaded["signatures"], requests.declared):
            return dataclasses.replace(result, reasons=reasons)
        result = _replayed(result, model, requests)
        if not result.passed:
            return result
        subjects, seconds = [model], [loaded["seconds"]]
        if result.against:
            champion = start(f"the champion's process, of {result.against},", pathlib.Path(result.against))
            subjects, seconds = [model, champion], [*seconds, champion.load()["seconds"]]
        for _ in range(_MEASUREMENTS):
            measured, *others = measure(subjects, seconds, requests, result.limits)
            beside = others[0] if others else None
            reasons = cost_reasons(measured, beside, result.limits)
            if not reasons:
                break
    except ChildError as error:
        return dataclasses.replace(result, reasons=[*result.reasons, str(error)])
    return dataclasses.replace(result, reasons=reasons, measured=measured, champion=beside)


def _replayed(result: InfraResult, model: Child, requests: Requests) -> InfraResult:
    """Adds to the result how the model answered recorded requests, and garbage. Raises ChildError."""
    found = model.ask("replay", during="while it answered the recorded requests")
    garbage = model.ask("garbage", during="while it was asked with bytes that are no example")
    refusal = "bytes that are no serialized example were answered as if they were one, not with an error"
    replayed = Replayed(
        calls=len(requests.calls),
        rows=sum(call.rows for call in requests.calls),
        exact=found["exact"],
        tolerance=requests.tolerance,
        worst=found["worst"],
    )
    reasons = [*found["reasons"], *([] if garbage["refused"] else [refusal])]
    return dataclasses.replace(result, reasons=reasons, replayed=replayed)


# --- Costs of a model against the limits and the champion: pure arithmetic.


Ways = Mapping[str, Mapping[str, Sequence]]  # inputs and outputs → name → dtype and shape
Declared = Mapping[str, Ways]


def signature_reasons(found: Declared, declared: Declared) -> list[str]:
    """Returns a sentence for each signature, input or output that is missing or differs. Additional ones are
    no fault.
    """
    return [text for name, expected in declared.items() for text in _signature_reasons(name, found, expected)]


def cost_reasons(measured: Measured, champion: Measured | None, limits: Limits) -> list[str]:
    """Returns a sentence for each limit that the model exceeds."""
    return [*_absolute(measured, limits), *(_relative(measured, champion, limits) if champion else ())]


def _signature_reasons(name: str, found: Declared, expected: Ways) -> Iterator[str]:
    if name not in found:
        others = ", ".join(f"'{other}'" for other in sorted(found)) or "none"
        yield f"signature '{name}' is missing; the model has {others}"
        return
    for way, tensors in expected.items():
        for tensor, spec in tensors.items():
            has = found[name][way].get(tensor)
            if has is None:
                others = ", ".join(f"'{other}'" for other in sorted(found[name][way])) or "none"
                yield f"signature '{name}': {way[:-1]} '{tensor}' is missing; it has {others}"
            elif list(has) != list(spec):
                what = f"signature '{name}': {way[:-1]} '{tensor}'"
                yield f"{what} is {_format(has)}, declared is {_format(spec)}"
    for tensor in sorted(set(found[name]["inputs"]) - set(expected["inputs"])):
        yield f"signature '{name}' asks for an input '{tensor}' that is not declared"


def _format(spec: Sequence) -> str:
    dtype, shape = spec
    return f"{dtype}{'' if shape is None else shape}"


def _absolute(measured: Measured, limits: Limits) -> Iterator[str]:
    one = measured.latency[0]
    for what, value, most, unit in (
        ("the median latency of one row", one.median_ms, limits.median_ms, "ms"),
        ("the 99th percentile of the latency of one row", one.p99_ms, limits.p99_ms, "ms"),
        ("the memory that the model takes", measured.memory_mib, limits.memory_mib, "MiB"),
        ("its size on disk", measured.disk_mib, limits.disk_mib, "MiB"),
    ):
        if most is not None and value > most:
            yield f"{what} is {three_digits(value)} {unit}; at most {three_digits(most)} {unit} is allowed"


def _relative(measured: Measured, champion: Measured, limits: Limits) -> Iterator[str]:
    for mine, other in zip(measured.latency, champion.latency, strict=True):
        rows = "one row" if mine.rows == 1 else f"{mine.rows:,} rows"
        yield from _latency_reasons(rows, mine, other, limits)
    for what, mine, other, ratio, slack in (
        (
            "the memory that the model takes",
            measured.memory_mib,
            champion.memory_mib,
            limits.memory_ratio,
            limits.memory_slack_mib,
        ),
        ("its size on disk", measured.disk_mib, champion.disk_mib, limits.disk_ratio, limits.disk_slack_mib),
    ):
        yield from _beyond(what, mine, other, ratio=ratio, slack=slack, unit="MiB")


def _latency_reasons(rows: str, mine: Latency, other: Latency, limits: Limits) -> Iterator[str]:
    """Compares medians round by round, and the best round of each: other load on the machine only slows."""
    pairs = list(zip(mine.medians, other.medians, strict=True))
    difference = statistics.median(one - another for one, another in pairs)
    ratio = statistics.median(one / max(another, 1e-9) for one, another in pairs)
    is_slower_at_best = min(mine.medians) > limits.median_ratio * min(other.medians)
    if ratio > limits.median_ratio and difference > limits.median_slack_ms and is_slower_at_best:
        yield (
            f"the median latency of {rows} is {three_digits(mine.median_ms)} ms, {ratio:.1f} times the "
            f"champion's {three_digits(other.median_ms)} ms; at most {limits.median_ratio:g} times is allowed"
        )
    yield from _beyond(
        f"the 99th percentile of the latency of {rows}",
        mine.p99_ms,
        other.p99_ms,
        ratio=limits.p99_ratio,
        slack=limits.p99_slack_ms,
        unit="ms",
    )


def _beyond(what: str, mine: float, other: float, *, ratio: float, slack: float, unit: str) -> Iterator[str]:
    if mine > ratio * other and mine - other > slack:
        times = f"{mine / other:.1f} times the champion's" if other else "against the champion's"
        yield (
            f"{what} is {three_digits(mine)} {unit}, {times} {three_digits(other)} {unit}; at most {ratio:g} "
            "times is allowed"
        )
