"""What a run of the input benchmark found, as Markdown: machine, tables, verdicts."""

import datetime
import importlib.metadata
import pathlib
import platform
import shlex
from collections.abc import Mapping, Sequence

from benchmarks.reading import machine
from benchmarks.reading.cases import READERS, Case
from benchmarks.reading.targets import TARGETS

Figures = Sequence[Mapping]  # as --json lists them

_ROOT = pathlib.Path(__file__).parents[2]
_OURS = {  # whom the others of a workload are compared with
    "tabular": ("ours_blocks", "ours_mapped"),
    "images": ("ours_uint8", "ours_float32"),
    "tokens": ("ours_blocks", "ours_mapped"),
}
_CONTENT = {
    "tabular": "1,048,576 rows of 40 columns (13 float32, 26 categories below 100,000, a label); batches of "
    "1,024. One Example holds three lists, `dense`, `cat` and `label`: for who parses rows, half the cost of "
    "40 features. Every reader yields float32 [1024, 13], int32 [1024, 26] and labels, but the mapped ones: "
    "torch's are views of one gathered matrix, ours is that matrix, whose columns the step cuts out.",
    "images": "8,192 JPEGs of about 25 KB, sides of 240 to 288; random resized crop to 224 × 224 and flip; "
    "batches of 256.",
    "tokens": "80,000 documents, 32,000 token ids, packed to rows of 513; batches of 1,024. Every reader "
    "yields int32 [1024, 513].",
}
_PROJECT_LIBRARIES = ("tensorflow", "tensorflow-datasets", "numpy")
_PEER_LIBRARIES = (
    *("torch", "grain", "array-record", "mosaicml-streaming", "webdataset"),
    *("simplejpeg", "opencv-python-headless", "numpy"),
)

_METHOD = """\
CPU is user and system time of the reader's whole process tree per example, from after the start (imports,
the first batch and half as long again as is measured) on; the ratios are of this figure. *First batch* is
the time from the construction of the reader, its libraries imported, to its first batch. *Peak* is the
largest proportional set size of the process tree, mapped files counted, from its very start. *Epoch* says how
many examples a run of its own was seen to hold, each exactly once. Every run has a process of its own, rounds
are interleaved, figures are medians. Files are in the page cache. Below 1, a ratio says that the peer needs
less than we do."""


def page(
    found: Figures,
    *,
    counted: Mapping[Case, int],
    forms: Mapping[Case, str],
    command: Sequence[str],
    rounds: int,
    peers: pathlib.Path,
) -> str:
    """The whole of RESULTS.md."""
    sections = [
        "# The input pipeline beside its peers",
        "Written by `make benchmark-input`; do not edit.",
        _circumstances(found, command=command, rounds=rounds, peers=peers),
        _METHOD,
        "## Targets",
        verdicts(found),
    ]
    epochs = {(case.workload, case.name): examples for case, examples in counted.items()}
    for workload in READERS:
        mine = [one for one in found if one["workload"] == workload]
        if mine:
            sections += [f"## {workload.capitalize()}", _CONTENT[workload], table(mine, epochs)]
            sections += [
                _list({f"`{case.name}`": form for case, form in forms.items() if case.workload == workload})
            ]
    return "\n\n".join(sections) + "\n"


def verdicts(found: Figures) -> str:
    """A line for each target: held, missed or not measured."""
    cpu = {(one["workload"], one["name"]): one["cpu_us_per_example"] for one in found}
    lines = ["| workload | CPU ratio | measured | verdict |", "|---|---|---:|---|"]
    for target in TARGETS:
        ratio = target.ratio(cpu)
        measured, verdict = "–", "not measured"
        if ratio is not None:
            measured, verdict = f"{ratio:.2f}×", "held" if target.holds(ratio) else "**missed**"
        lines.append(f"| {target.workload} | {target} | {measured} | {verdict} |")
    return "\n".join(lines)


def table(found: Figures, epochs: Mapping[tuple[str, str], int] | None = None) -> str:
    """The readers of one workload, cheapest first."""
    workload = found[0]["workload"]
    ours = _OURS[workload]
    cpu = {one["name"]: one["cpu_us_per_example"] for one in found}
    titles = ("reader", "CPU µs / example", *(f"× {name}" for name in ours), "examples / s")
    titles += ("first batch s", "peak MB", "epoch", "load")
    lines = [f"| {' | '.join(titles)} |", f"|---|{'---:|' * (len(titles) - 1)}"]
    for one in sorted(found, key=lambda one: one["cpu_us_per_example"]):
        ratios = (f"{cpu[one['name']] / cpu[name]:,.2f}" if cpu.get(name) else "–" for name in ours)
        held = (epochs or {}).get((workload, one["name"]))
        cells = (
            f"{one['cpu_us_per_example']:,.3f}",
            *ratios,
            f"{one['examples_per_s']:,.0f}",
            f"{one['first_batch_s']:.2f}",
            f"{one['peak_mb']:,.0f}",
            f"{held:,}" if held else "–",
            f"{one['load']:.1f}",
        )
        lines.append(f"| {one['name']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _list(items: Mapping[str, str]) -> str:
    return "\n".join(f"- {name}: {text}" for name, text in items.items())


def _circumstances(found: Figures, *, command: Sequence[str], rounds: int, peers: pathlib.Path) -> str:
    loads = [one["load"] for one in found]
    script, *arguments = command
    module = ".".join(pathlib.Path(script).resolve().relative_to(_ROOT).with_suffix("").parts)
    facts = {
        "Date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "Command": f"`{shlex.join(['python', '-m', module, *arguments])}`, {rounds} rounds",
        "Machine": machine.described(),
        "Load": f"{min(loads)} to {max(loads)} over the last minute, as runs began",
        "Project": f"Python {platform.python_version()}, {_versions(_PROJECT_LIBRARIES)}",
        "Peers": _versions(_PEER_LIBRARIES, peers) or "not installed",
    }
    return _list(facts)


def _versions(libraries: Sequence[str], environment: pathlib.Path | None = None) -> str:
    """The versions of `libraries` in an environment, by default this one."""
    path = [str(one) for one in environment.glob("lib/python*/site-packages")] if environment else None
    search = {"path": path} if path is not None else {}
    found = {one.name: one.version for name in libraries
             for one in importlib.metadata.distributions(name=name, **search)}  # fmt: skip
    return ", ".join(f"{name} {version}" for name, version in found.items())
