"""The certificate as sections: a line for each stage, then the verdict and what to change."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from pipeline.data.dataset.selection import Selection
from pipeline.feed.certificate import MARGIN, Certificate, OfSlice
from pipeline.feed.measure import Residency
from pipeline.feed.scaling import Line
from pipeline.report import formats
from pipeline.report.section import Facts, Finding, Section, Table

_SMALL_SHARD_BYTES = 8 << 20  # 8 MiB: for smaller files, opening takes much of the time of reading

# Advice by the name of the stage; other stages get the advice that holds for any.
_OF_STAGE = {
    "from disk": "copy the files to a disk of this host before training, or have fewer bytes an example",
    "read": "convert tables with --layout=blocks, which local files map into memory instead of reading",
    "parse": "convert with --layout=blocks: fixed-width rows need no parsing",
    "decode": "store the images at the size that training needs (a JPEG takes time by its pixels), as JPEG "
    "rather than PNG, and crop while decoding with --config.augmentation.crop_area",
    "augment": "leave out rotation, zoom and colour, or do them in the model, on the accelerator",
    "preprocess": "list vocabularies in the schema instead of hashing, and tokenise text when converting",
    "batch": "make examples smaller: images as uint8 in place of float32, normalised on the accelerator",
    "copy": "make batches smaller: images as uint8 in place of float32, normalised on the accelerator",
}
_OF_ANY_STAGE = "move its work into the conversion, or onto the accelerator"


def sections(
    certificate: Certificate, advice: Sequence[str], origin: Mapping[str, str] | None = None
) -> list[Section]:
    """A table of the stages; then what was measured on which host, the verdict and the advice.

    Args:
      origin: when, where and for which dataset the certificate was made, by name.
    """
    header = ("stage", "examples/s", "MB/s", "CPU µs/example", "bytes/example", "cores wanted", "")
    rows = [[*_cells(line), "◀ limit" * (line is certificate.limiting)] for line in measured(certificate)]
    rules = (0, len(certificate.stages))
    stages = Table(header=header, rows=rows, numbers=range(1, 6), rules=rules)
    summary = [_summary(certificate, origin or {}), *(Finding(text=one) for one in advice)]
    return [Section(parts=[stages]), Section(parts=summary)]


def measured(certificate: Certificate) -> tuple[Line, ...]:
    """The stages, all stages together and, where that was measured, all together from the disk."""
    uncached = [certificate.uncached] if certificate.uncached else []
    return (*certificate.stages, certificate.together, *uncached)


def advice(certificate: Certificate, files: "Files | None" = None) -> tuple[str, ...]:
    """Sentences, the most useful one first; none if training is fed."""
    return () if certificate.is_fed else tuple(_advice(certificate, files))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Files:
    """The facts known about the files that the pipeline reads."""

    shards: int
    mean_bytes: float

    @property
    def are_small(self) -> bool:
        """Returns whether opening the files is a large part of the time to read them."""
        return self.shards > 1 and self.mean_bytes < _SMALL_SHARD_BYTES


def files_of(selection: Selection) -> Files:
    """The files that hold the selected rows."""
    return Files(shards=len(selection.shards.paths), mean_bytes=float(selection.shards.bytes.mean()))


def _cells(line: Line) -> tuple[str, ...]:
    return (
        line.name,
        f"{line.examples_per_s:,.0f}" if line.examples_per_s >= 10 else f"{line.examples_per_s:.2f}",
        f"{line.mb_per_s:,.1f}",
        f"{line.cpu_us:,.2f}",
        f"{line.bytes_per_example:,.0f}",
        f"{line.wanted_cores:.1f}",
    )


def _summary(certificate: Certificate, origin: Mapping[str, str]) -> Facts:
    host, demand, reads = certificate.host, certificate.demand, certificate.in_flight
    beside = (
        f"other processes took {host.others_cores:.1f} of these cores meanwhile, and the verdict is what was "
        "measured beside them"
    )
    return Facts(
        items=[
            *origin.items(),
            ("host", f"{_cores(host.cores)}; the pipeline took {host.memory_mb:,.0f} MB of memory"),
            ("training", f"a global batch of {demand.global_batch:,} on {_slice(certificate)}"),
            ("files", _files(certificate.files)),
            (
                "reads",
                f"{1e3 * reads.latency_s:,.1f} ms each, so {reads.reads:,} at once"
                if reads and reads.is_slow
                else None,
            ),
            ("beside", beside if host.is_shared else None),
            ("verdict", _verdict(certificate)),
            ("slowest", _slowest(certificate)),
            ("limit", certificate.why_limiting),
            ("expected", _expected(certificate.of_slice, demand.slice.name)),
        ]
    )


def _files(files: Residency | None) -> str | None:
    if files is None:
        return None
    held = f", of which the page cache held {files.resident:.0%}" if files.resident is not None else ""
    unknown = "; how much of them the page cache holds is known only to who may write to them"
    return f"{files.bytes / 1e6:,.1f} MB{held or unknown}"


def _slowest(certificate: Certificate) -> str | None:
    """Names a picture that takes longer than what is ready lasts; the verdict is about the median rate."""
    if not certificate.waits_for_slowest:
        return None
    slowest = certificate.slowest
    return (
        f"one example in {slowest.one_in:,} takes {formats.number(slowest.seconds)} s, and what is ready "
        f"lasts {formats.number(certificate.hidden_s)} s: steps will wait; such as {slowest.place}. Make "
        "such pictures smaller before they are converted"
    )


def _expected(host: OfSlice | None, name: str) -> str | None:
    """Describes what a host of the slice would give: with its own cores, at the measured CPU time."""
    if host is None:
        return None
    rate = f"at least {host.examples_per_s:,.0f} examples/s on the {host.cores:,} cores of a host of {name}"
    times = "" if host.headroom is None else f", {_times(host.headroom)}x of what steps take"
    return f"{rate}, if they are like these{times}; the limit there is {host.limiting}"


def _slice(certificate: Certificate) -> str:
    chosen = certificate.demand.slice
    return f"{chosen.name}: {_count(chosen.hosts, 'host')}, {_count(chosen.replicas, 'replica')}"


def _verdict(certificate: Certificate) -> str:
    limit, demand = f"the limit is {certificate.limiting.name}", certificate.demand
    if certificate.headroom is None:
        return (
            f"this host feeds steps of {certificate.shortest_step_ms:,.2f} ms and longer, with a margin of "
            f"{MARGIN - 1:.0%}; {limit}"
        )
    return (
        f"{certificate.verdict}: {_times(certificate.headroom)}x of the {demand.examples_per_s:,.0f} "
        f"examples/s a host that steps of {demand.step_ms:g} ms take; {limit}; {_cores_needed(certificate)}"
    )


def _cores_needed(certificate: Certificate) -> str:
    """Describes how many cores are enough, and how many a host of the slice has."""
    needed, there = certificate.cores_needed, certificate.demand.slice.host_cores
    if needed is None:
        return _why_no_cores(certificate)
    is_beside = not certificate.is_fed and needed <= certificate.host.cores
    verb = "is" if needed == 1 else "are"
    enough = f"{_cores(needed)} like these {verb} enough{' for it alone' * is_beside}"
    return enough if there is None else f"{enough}, a host of {certificate.demand.slice.name} has {there:,}"


def _why_no_cores(certificate: Certificate) -> str:
    capped = [line for line in certificate.stuck if certificate.scaling.is_capped(line)]
    if capped:
        names = "; and of ".join(f"{line.name}{_threads(line.at_once, ', which runs in')}" for line in capped)
        return f"no number of cores is enough, because of {names}"
    names = " and ".join(line.name for line in certificate.stuck or certificate.unsure)
    why = (
        f"{names} waits for something other than a core"
        if certificate.stuck
        else f"more calls of {names} may run at once than could run on these cores"
    )
    return f"how many cores are enough is not known, because {why}"


def _advice(certificate: Certificate, files: Files | None) -> Iterator[str]:
    line = certificate.limiting
    if certificate.uncached_is_costly:
        yield (
            f"{line.name}: takes {line.cpu_us:,.0f} µs of the cores for every example, where the page cache "
            f"takes {certificate.together.cpu_us:,.1f}: it waits for no disk. With few files, that is the "
            "start of the pipeline, which a training pays once: measure more data, or leave out --cold."
        )
    else:
        yield _what_it_lacks(certificate, line)
        if line.name == "read" and files and files.are_small:
            yield (
                f"read: {files.shards:,} shards of {files.mean_bytes / 1024:,.0f} KiB; convert to fewer of "
                "them, of 100 MiB or more."
            )
        yield f"{line.name}: {_OF_STAGE.get(line.name, _OF_ANY_STAGE)}."
    there = certificate.demand.slice.host_cores or certificate.host.cores
    if certificate.cores_needed and certificate.cores_needed > there:
        yield f"Or take hosts with {certificate.cores_needed:,} cores, more hosts, or a larger model."


def _what_it_lacks(certificate: Certificate, line: Line) -> str:
    bound = certificate.bound(line)
    if bound == "waiting":
        is_disk = line.name == "read" or line is certificate.uncached
        source = "storage that is closer or faster: a local disk" if is_disk else "less waiting"
        return (
            f"{line.name}: waits at {line.mb_per_s:,.1f} MB/s with {line.wanted_cores:.1f} cores in use; "
            f"more cores do not help, {source} does."
        )
    if bound == "calls":
        own = "; let it run in parallel (no Python function, generator or map of one thread)"
        runs = _threads(certificate.scaling.at_once(line), ": runs in")
        return f"{line.name}{runs}, so more cores do not help{'' if line.name in _OF_STAGE else own}."
    return f"{line.name}: takes {line.cpu_us:,.1f} µs of the cores for every example."


def _threads(at_once: float | None, start: str) -> str:
    return "" if at_once is None else f"{start} {at_once:.2g} thread{'s' * (at_once != 1)} at most"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _cores(count: float) -> str:
    return f"{count:,g} core{'s' * (count != 1)}"


def _times(ratio: float) -> str:
    return f"{ratio:,.2f}" if ratio >= 0.1 else f"{ratio:.2g}"
