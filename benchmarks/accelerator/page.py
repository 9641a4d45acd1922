"""The page of `benchmarks.metal`: a section for each part, of what its JSON holds."""

from collections.abc import Iterator, Mapping

from pipeline.base import accelerators
from pipeline.report import formats
from pipeline.report.section import Facts, Finding, Note, Section, Table, Tiles

_TITLES = {
    "fed_table": "Fed: the tabular default",
    "fed_pictures": "Fed: pictures",
    "resume": "Killed and resumed",
    "precision": "Precision",
    "replicas": "All devices",
    "beside": "Beside model.fit and torch",
}
_FED = 0.95  # a feed that costs less than the rest is not worth a change


def sections(document: Mapping) -> list[Section]:
    """The head of the page, and a section for each part."""
    is_rehearsal = document["rehearsal"]
    parts = (_part(name, each, is_rehearsal=is_rehearsal) for name, each in document["parts"].items())
    return [_head(document), *parts]


def _head(document: Mapping) -> Section:
    seen, parts = document["seen"], document["parts"]
    name = "a rehearsal without an accelerator" if document["rehearsal"] else seen["name"]
    warnings = []
    if document["rehearsal"]:
        text = "A rehearsal: no accelerator was found, and two halves of this processor play two devices."
        warnings.append(Finding(text=text, advice="No figure says anything about a GPU or TPU."))
    if document["quick"]:
        warnings.append(Finding(text="--quick: too few steps for any figure to mean something."))
    facts = {
        "device": seen["name"],
        "devices": formats.count(document["devices"]),
        "names of TensorFlow": ", ".join(seen["devices"]),
        "formats": ", ".join(seen["policies"]),
        **seen["versions"],
        "time": formats.duration(sum(each["seconds"] for each in parts.values())),
    }
    tiles = [*_tiles({name: each["figures"] for name, each in parts.items() if "figures" in each})]
    title = f"Check of a machine: {name}"
    return Section(title=title, parts=[*warnings, Tiles(items=tiles) if tiles else None, Facts(items=facts)])


def _tiles(figures: Mapping[str, Mapping]) -> Iterator[tuple[str, str]]:
    for name, what in (("fed_table", "table"), ("fed_pictures", "pictures")):
        if name in figures:
            yield formats.percent(figures[name]["fed"]), f"fed, {what}"
            if figures[name]["mfu"] is not None:
                yield formats.percent(figures[name]["mfu"]), f"MFU, {what}"
    if "resume" in figures:
        yield "no" if figures["resume"]["differing"] else "yes", "resumed bit for bit"


def _part(name: str, found: Mapping, *, is_rehearsal: bool) -> Section:
    took = Note(text=f"took {formats.duration(found['seconds'])}")
    if "error" in found:
        return Section(title=_TITLES[name], parts=[found["error"], took], good=False)
    good, parts = _PARTS[name](found["figures"])
    if is_rehearsal and _PARTS[name] is _fed:
        good = None  # a processor that trains also reads: its speed is neither good nor bad
    return Section(title=_TITLES[name], parts=[*parts, took], good=good)


def _fed(figures: Mapping) -> tuple[bool, list]:
    own, kept, forecast = figures["own"], figures["kept"], figures["forecast"]
    rows = [
        [
            name,
            formats.count(each["examples_per_s"]),
            formats.step_time(each["step_ms"] / 1e3),
            formats.percent(each["input_wait"]),
        ]
        for name, each in (("own input", own), ("kept batches", kept))
    ]
    header = ["input", "examples/s", "a step", "waiting for input"]
    facts = {
        "fed": f"{formats.percent(figures['fed'])} of the time",
        "operations": f"{formats.three_digits(figures['flops_per_s'] / 1e9)} × 10⁹ a second",
        "MFU": "not known: no peak" if figures["mfu"] is None else formats.percent(figures["mfu"]),
    }
    step = f"A step, by preflight for {forecast.get('target', 'this machine')}: {_bound(forecast)}."
    return figures["fed"] >= _FED, [
        Table(header=header, rows=rows, numbers={1, 2, 3}),
        Facts(items=facts),
        step,
    ]


def _bound(forecast: Mapping) -> str:
    """The band of a step, with its MFU, or why there is none."""
    if "error" in forecast:
        return f"none: {forecast['error']}"
    if not forecast["seconds"]:
        return "; ".join(each["verdict"] for each in forecast["stages"] if each["name"] == "time") or "none"
    low, high = forecast["seconds"]
    if low == high:
        return f"at least {formats.step_time(low)}"
    known = accelerators.of_target(forecast["target"].partition(":")[0])
    least, most = (formats.percent(known.utilisation(forecast["flops"] / each)) for each in (high, low))
    return f"{formats.step_time(low)} to {formats.step_time(high)}, an MFU of {least} to {most}"


def _resume(figures: Mapping) -> tuple[bool, list]:
    same = not figures["differing"]
    verdict = "The same, bit for bit" if same else f"{figures['differing']} differ"
    text = f"{verdict}: {figures['arrays']} arrays of weights, optimizer and averages, with --deterministic."
    facts = {
        "killed behind step": f"{figures['killed_behind']} of {figures['steps']}",
        "largest difference": None if same else f"{figures['largest']:.3g}, of {figures['of']}",
    }
    return same, [text, Facts(items=facts)]


def _runs(runs: Mapping[str, Mapping], first: str) -> Table:
    """A row for each run; its loss beside that of the first."""
    exact = runs[first]["loss"]
    rows = [
        [
            name,
            formats.count(run["replicas"]),
            formats.count(run["examples_per_s"]),
            f"{run['loss']:.5f}",
            "" if name == first else f"{run['loss'] - exact:+.2g}",
        ]
        for name, run in runs.items()
    ]
    header = ["run", "devices", "examples/s", "loss at the end", f"from {first}"]
    return Table(header=header, rows=rows, numbers={1, 2, 3, 4})


def _precision(figures: Mapping) -> tuple[None, list]:
    return None, [
        _runs(figures, "float32"),
        Note(text="The same steps on the same examples, without dropout."),
    ]


def _replicas(figures: Mapping) -> tuple[None, list]:
    runs = {name: figures[name] for name in ("one", "all")}
    apart = figures["difference"]
    text = f"The weights' largest difference is {apart['largest']:.3g}, of {apart['of'] or 'none'}."
    return None, [_runs(runs, "one"), text, Note(text="Devices add the same numbers in another order.")]


def _beside(figures: Mapping) -> tuple[None, list]:
    rows = [
        [
            case["workload"] + (", constant batch" if case["constant"] else ""),
            {"ours": "this project", "fit": "model.fit"}.get(case["subject"], case["subject"]),
            formats.count(case["steps_per_loop"]),
            f"{formats.three_digits(case['wall_us_per_example'])} µs",
        ]
        for case in figures["cases"]
    ]
    note = None if figures["torch"] else Note(text="torch was left out: `make peers` installs it.")
    header = ["workload", "who trains", "steps a loop", "an example"]
    return None, [Table(header=header, rows=rows, numbers={2, 3}), note]


_PARTS = {
    "fed_table": _fed,
    "fed_pictures": _fed,
    "resume": _resume,
    "precision": _precision,
    "replicas": _replicas,
    "beside": _beside,
}
