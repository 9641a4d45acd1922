"""Where the model came from: in one sentence, and in the commands and versions that make it again."""

import json
import pathlib
from collections.abc import Mapping

from pipeline.training.report_page import formats
from pipeline.training.report_page.inputs import ReportInputs
from pipeline.training.report_page.markup import Markup, definitions, folded, table, tag

DIGEST_CHARACTERS = 12


def title(inputs: ReportInputs) -> str:
    """`digits_resnet on digits 1.0.0`, as far as both are known."""
    config = pathlib.Path(inputs.run.get("config_file") or inputs.workdir.name).stem
    manifest = inputs.manifest
    return f"{config} on {manifest.name} {manifest.version}" if manifest else config


def origin(inputs: ReportInputs) -> Markup:
    """One sentence: trained when, on what, for how long."""
    run, parts = inputs.run, []
    if run.get("started"):
        parts.append(f"started {str(run['started'])[:16].replace('T', ' ')}")
    steps = inputs.history[-1].get("step") if inputs.history else None
    if steps is not None:
        total = run.get("steps")
        parts.append(
            f"{formats.count(steps)} steps"
            if steps == total or not total
            else (f"step {formats.count(steps)} of {formats.count(total)}, still training or stopped")
        )
    if run.get("seconds"):
        parts.append(formats.duration(run["seconds"]))
    if run.get("machine"):
        parts.append(_machine_in_short(run))
    if run.get("dataset_digest"):
        parts.append(f"dataset {str(run['dataset_digest'])[:DIGEST_CHARACTERS]}")
    return tag("p", " · ".join(parts), class_="origin")


def _machine_in_short(run: Mapping) -> str:
    devices = run.get("devices") or ()
    return f"{len(devices)} × {devices[0]}" if devices else str(run["machine"].get("processor", ""))


def provenance_section(inputs: ReportInputs) -> Markup:
    run, machine = inputs.run, inputs.run.get("machine") or {}
    memory = machine.get("memory_gb")
    return tag(
        "section",
        tag("h2", "Make it again"),
        _command("Convert the raw data", inputs.conversion.get("command")),
        _command("Train", run.get("command")),
        definitions(
            {
                "dataset": run.get("dataset"),
                "manifest digest": tag("code", run["dataset_digest"]) if run.get("dataset_digest") else None,
                "schema fingerprint": tag("code", inputs.schema.fingerprint) if inputs.schema else None,
                "processor": machine.get("processor"),
                "cores": formats.count(machine["cores"]) if "cores" in machine else None,
                "memory": f"{formats.number(memory)} GB" if memory else None,
                "platform": machine.get("platform"),
                "devices": ", ".join(map(str, run.get("devices") or ())) or None,
            }
        ),
        _versions(run.get("versions") or {}, inputs.conversion.get("versions") or {}),
        _config(run),
        id="again",
    )


def _command(name: str, command: str | None) -> Markup | None:
    return tag("div", tag("h3", name), tag("pre", command)) if command else None


def _versions(training: Mapping, conversion: Mapping) -> Markup | None:
    names = [*training, *(name for name in conversion if name not in training)]
    if not names:
        return None
    unknown = formats.NOT_KNOWN
    rows = [[name, training.get(name, unknown), conversion.get(name, unknown)] for name in names]
    return tag("div", tag("h3", "Versions"), table(["", "training", "conversion"], rows))


def _config(run: Mapping) -> Markup | None:
    if not run.get("config"):
        return None
    name = f"Configuration: {run.get('config_file', '')}"
    return folded(name, tag("pre", json.dumps(run["config"], indent=2, ensure_ascii=False)))
