"""report.html of a cycle: what it was trained on, how the models compare, what was decided and why."""

import pathlib
from collections.abc import Mapping

from pipeline.data import atomic_files
from pipeline.release.cycles.records import ended, receipts
from pipeline.release.cycles.stages.job import Job
from pipeline.release.cycles.told import compared, lines, moved, trained
from pipeline.release.cycles.told.status import time, why
from pipeline.training.report.drawing import formats
from pipeline.training.report.drawing.document import document
from pipeline.training.report.drawing.markup import Markup, definitions, join, table, tag

FILE_NAME = "report.html"
_STAGES = ("data", "train", "export", "parity", "evaluate", "infra", "decide", "publish", "verify", "gc")


def write(job: Job) -> pathlib.Path:
    """Writes the page from the receipts that are there now: a reader never sees half of one."""
    path = job.folder / FILE_NAME
    atomic_files.write_bytes(path, render(job).encode(errors="backslashreplace"))
    return path


def render(job: Job) -> Markup:
    """The whole page."""
    begun = ended.read(job.folder)
    said = {stage: found for stage in _STAGES if (found := receipts.read(job.receipt_of(stage)))}
    name = f"{job.root.name}: cycle {job.id}"
    decided = said.get("decide", {})
    return document(
        name,
        tag("header", tag("h1", name), _headline(begun, said), tag("p", why(begun))),
        _reasons(decided),
        compared.section(decided.get("gate")),
        compared.slices_section(decided.get("gate")),
        _window(begun.plan, said),
        moved.section(job),
        trained.section(job.run),
        _checks(said),
        _stages(said),
    )


def _headline(begun: ended.Begun, said: Mapping) -> Markup:
    decision = (
        begun.decision if begun.end or begun.failure else said.get("decide", {}).get("decision", "runs")
    )
    version = (begun.end or {}).get("version")
    return tag(
        "div",
        tag(
            "div",
            tag("strong", decision, class_=f"decision {decision}"),
            tag("span", "decision"),
            class_="tile",
        ),
        _tile(version, "version") if version else None,
        _tile(time(begun.plan["at"]), "begun, UTC"),
        _tile(begun.plan["champion"].get("version", "none"), "champion, version"),
        class_="tiles",
    )


def _tile(value: object, told: str) -> Markup:
    return tag("div", tag("strong", value), tag("span", told), class_="tile")


def _reasons(decided: Mapping) -> Markup | None:
    if not decided.get("reasons"):
        return None
    listed = tag("ul", *(tag("li", reason) for reason in decided["reasons"]))
    return tag("section", tag("h2", "Why"), listed, class_="findings")


def _window(plan: Mapping, said: Mapping) -> Markup:
    """Spans with their rows and roles, and what was left out."""
    rows = [
        [span["name"], formats.count(sum(span["rows"].values())), " and ".join(span["roles"]), span["raw"]]
        for span in plan["spans"]
    ]
    overlap = said.get("data", {}).get("overlap")
    return tag(
        "section",
        tag("h2", "Data"),
        tag("p", lines.window_of(plan)),
        definitions(
            {
                "due because": "; ".join(plan["due"]) or None,
                "rows of the holdout that training has too": formats.count(overlap["rows"])
                if overlap
                else None,
            }
        ),
        tag("ul", *(tag("li", note) for note in plan["notes"])) if plan["notes"] else None,
        table(["span", "rows", "role", "raw data"], rows, numbers=frozenset({1})),
    )


def _checks(said: Mapping) -> Markup | None:
    """Parity and the infra check."""
    found = {name: said[name] for name in ("parity", "infra") if name in said}
    if not found:
        return None
    parts = []
    for name, each in found.items():
        verdict = "passed" if each["passed"] else "failed"
        parts += [
            tag("h3", f"{ {'parity': 'Parity', 'infra': 'Infra check'}[name] }: {verdict}"),
            tag("ul", *(tag("li", reason) for reason in each["reasons"])) if each["reasons"] else None,
        ]
    return tag("section", tag("h2", "Does it serve as it was trained?"), *parts, _cost(said.get("infra")))


def _cost(infra: Mapping | None) -> Markup | None:
    """Latency, memory and size beside the champion's."""
    if not infra or not infra.get("measured"):
        return None
    models = {"challenger": infra["measured"], "champion": infra.get("champion")}
    rows = [
        [
            role,
            f"{each['latency'][0]['median_ms']:.2f} ms",
            f"{each['latency'][0]['p99_ms']:.2f} ms",
            f"{each['memory_mib']:,.0f} MiB",
            f"{each['disk_mib']:.1f} MiB",
        ]
        for role, each in models.items()
        if each
    ]
    header = ["", "one row, median", "one row, p99", "memory", "size"]
    return table(header, rows, numbers=frozenset({1, 2, 3, 4}))


def _stages(said: Mapping) -> Markup:
    rows = [
        [stage, time(each["at"]), formats.duration(each["seconds"]), lines.of_stage(stage, each)]
        for stage, each in said.items()
    ]
    listed = table(["stage", "ended, UTC", "took", ""], rows, numbers=frozenset({2}))
    return tag("section", tag("h2", "Stages"), join(listed))
