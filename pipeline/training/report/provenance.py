"""The provenance of a model: one sentence, and the commands and versions that reproduce it."""

import json
import pathlib
from collections.abc import Mapping

from pipeline.report import formats
from pipeline.report.html import tag
from pipeline.report.section import Code, Facts, Folded, Section, Table
from pipeline.training.report.inputs import ReportInputs

_DIGEST_CHARACTERS = 12


def title(inputs: ReportInputs) -> str:
    """`digits_resnet on digits 1.0.0`, as far as both are known."""
    config = pathlib.Path(inputs.run.get("config_file") or inputs.workdir.name).stem
    manifest = inputs.manifest
    return f"{config} on {manifest.name} {manifest.version}" if manifest else config


def origin(inputs: ReportInputs) -> str:
    """One line that says when the model was trained, how far, for how long, and on what."""
    run = inputs.run
    parts = (
        f"started {str(run['started'])[:16].replace('T', ' ')}" if run.get("started") else None,
        _progress(inputs),
        f"{formats.duration(run['seconds'])} of training" if run.get("seconds") else None,
        _devices(run),
        f"dataset {str(run['dataset_digest'])[:_DIGEST_CHARACTERS]}" if run.get("dataset_digest") else None,
    )
    return " · ".join(part for part in parts if part)


def _progress(inputs: ReportInputs) -> str | None:
    if not inputs.history:
        return None
    steps = formats.count(inputs.history[-1]["step"])
    if inputs.run.get("finished"):
        return f"{steps} steps"
    return f"step {steps} of {formats.count(inputs.run.get('total_steps'))}, not finished"


def _devices(run: Mapping) -> str | None:
    """`2 × CPU, Intel(R) Xeon(R) Processor` from `/job:worker/replica:0/task:0/device:CPU:0`, …"""
    kinds = [str(device).rpartition("device:")[2].partition(":")[0] for device in run.get("devices") or ()]
    parts = [f"{kinds.count(kind):,} × {kind}" for kind in dict.fromkeys(kinds)]
    processor = (run.get("machine") or {}).get("processor")
    return ", ".join([*parts, *([processor] if processor else [])]) or None


def provenance_section(inputs: ReportInputs) -> Section:
    """Commands, digests, versions, machine and config."""
    run, machine = inputs.run, inputs.run.get("machine") or {}
    commands = {"Convert the raw data": inputs.conversion.get("command"), "Train": run.get("command")}
    memory = machine.get("memory_gb")
    facts = {
        "dataset": run.get("dataset"),
        "manifest digest": tag("code", run["dataset_digest"]) if run.get("dataset_digest") else None,
        **{f"code of {name}": _code(each) for name, each in (run.get("code") or {}).items()},
        "first weights": _start(run),
        "own callbacks": "; ".join(map(_callback, run.get("callbacks") or ())) or None,
        "schema fingerprint": tag("code", inputs.schema.fingerprint) if inputs.schema else None,
        "processor": machine.get("processor"),
        "cores": formats.count(machine["cores"]) if "cores" in machine else None,
        "memory": f"{formats.number(memory)} GB" if memory else None,
        "platform": machine.get("platform"),
        "devices": ", ".join(map(str, run.get("devices") or ())),
    }
    return Section(
        title="Make it again",
        parts=[
            *(Code(title=name, text=command) for name, command in commands.items() if command),
            Facts(items=facts),
            _spans(run),
            _versions(run.get("versions") or {}, inputs.conversion.get("versions") or {}),
            _first_weights(run.get("init") or {}),
            _config(run),
        ],
        id="again",
    )


def _code(code: Mapping) -> str:
    """The files, or the library, that hold what a config names."""
    if "package" in code:
        return f"{code['package']} {code.get('version')}"
    if "sha256" in code:
        return f"{code.get('file')}, SHA-256 {str(code['sha256'])[:_DIGEST_CHARACTERS]}"
    files = (code.get("files") or {}).items()
    named = ", ".join(f"{name} {str(digest)[:_DIGEST_CHARACTERS]}" for name, digest in files)
    return f"{code.get('folder')}: {named}"


def _callback(found: Mapping) -> str:
    lost = "" if found.get("exact") else f" ({found.get('why_not')})"
    return f"{found.get('class_name')}, exact: {str(bool(found.get('exact'))).lower()}{lost}"


def _start(run: Mapping) -> str | None:
    """The run or file that gave this run its first weights, or some of them; None if the seed gave all."""
    start, init = run.get("warm_start"), run.get("init")
    if start:
        checkpoint = str(start.get("checkpoint"))[:_DIGEST_CHARACTERS]
        return f"{start.get('workdir')}, step {formats.count(start.get('step'))}, checkpoint {checkpoint}"
    return f"{init.get('source')}, SHA-256 {str(init.get('digest'))[:_DIGEST_CHARACTERS]}" if init else None


def _first_weights(init: Mapping) -> Folded | None:
    """The weights that the model took from a source, those that the source lacked, and those that were left
    over.
    """
    if not init:
        return None
    loaded, lacking, left = (init.get(key) or () for key in ("loaded", "not_loaded", "not_used"))
    rows = [
        *([name, "not loaded", why] for name, why in dict(lacking).items()),
        *([name, "not used", "no such weight here, or of another shape"] for name in left),
        *([name, "loaded", ""] for name in loaded),
    ]
    title = f"First weights: {len(loaded):,} of {len(loaded) + len(lacking):,} loaded"
    return Folded(title=title, parts=[Table(header=["", "", ""], rows=rows)])


def _spans(run: Mapping) -> Folded | None:
    """The datasets that were read as one, in order."""
    rows = [
        [span.get("directory"), tag("code", str(span.get("digest"))[:_DIGEST_CHARACTERS])]
        for span in run.get("spans") or ()
    ]
    table = Table(header=["", "digest"], rows=rows)
    return Folded(title=f"Datasets, in order: {len(rows):,}", parts=[table]) if rows else None


def _versions(training: Mapping, conversion: Mapping) -> Table | None:
    names = dict.fromkeys([*training, *conversion])
    rows = [[name, *(each.get(name, formats.NOT_KNOWN) for each in (training, conversion))] for name in names]
    return Table(title="Versions", header=["", "training", "conversion"], rows=rows) if rows else None


def _config(run: Mapping) -> Folded | None:
    if not run.get("config"):
        return None
    text = json.dumps(run["config"], indent=2, ensure_ascii=False)
    return Folded(title=f"Configuration: {run.get('config_file', '')}", parts=[Code(text=text)])
