"""Replays recorded requests against a version directory in a fresh process, and measures what it costs."""

import contextlib
import dataclasses
import pathlib
import tempfile
from collections.abc import Callable

from pipeline.data.dataset import export_manifest
from pipeline.data.errors import InputError
from pipeline.release.infra import requests as requests_lib
from pipeline.release.infra.child import Child, ChildError
from pipeline.release.infra.judged import cost_reasons, signature_reasons
from pipeline.release.infra.limits import Limits
from pipeline.release.infra.measuring import Subject, measure
from pipeline.release.infra.requests import Requests
from pipeline.release.infra.result import InfraResult, Replayed

_DEFAULT = Limits()
_Start = Callable[[str, pathlib.Path], Subject]


def check(
    directory: pathlib.Path,
    requests: Requests,
    *,
    against: pathlib.Path | None,
    limits: Limits = _DEFAULT,
) -> InfraResult:
    """Whether the export at `directory` may serve.

    What goes wrong in the process that loads it is a reason of the result, never an exception.

    Args:
      requests: as they were recorded when the model was exported.
      against: the champion's version directory, with which latency, memory and size are compared; None: they
        are held against the limits that need no champion.
    """
    result = InfraResult(directory=str(directory), against=str(against or ""), reasons=(), limits=limits)
    try:
        export_manifest.open_export(directory)
    except InputError as error:
        return dataclasses.replace(result, reasons=[str(error)])
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as processes:
        requests_lib.save(requests, pathlib.Path(folder))

        def start(told: str, model: pathlib.Path) -> Subject:
            child = Child(model, pathlib.Path(folder), seconds=limits.seconds, process_mib=limits.process_mib)
            return Subject(told=told, directory=model, child=processes.enter_context(child))

        return _checked(result, start, requests)


def require(
    directory: pathlib.Path,
    requests: Requests,
    *,
    against: pathlib.Path | None = None,
    limits: Limits = _DEFAULT,
) -> None:
    """As `check`; raises InputError with the reasons where the export may not serve."""
    found = check(directory, requests, against=against, limits=limits)
    if not found.passed:
        raise InputError(
            f"model {directory}",
            received="; ".join(found.reasons),
            expected="what was recorded when it was exported, within the limits of the infra check",
            action="Do not serve it.",
        )


def _checked(result: InfraResult, start: _Start, requests: Requests) -> InfraResult:
    """The result with what was found; the champion's process starts only where the model answers right."""
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
        measured, *others = measure(subjects, seconds, requests, result.limits)
    except ChildError as error:
        return dataclasses.replace(result, reasons=[*result.reasons, str(error)])
    beside = others[0] if others else None
    reasons = cost_reasons(measured, beside, result.limits)
    return dataclasses.replace(result, reasons=reasons, measured=measured, champion=beside)


def _replayed(result: InfraResult, model: Subject, requests: Requests) -> InfraResult:
    """The result with how the model answered, garbage too. Raises ChildError."""
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
