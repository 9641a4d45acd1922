"""The certificate on a terminal."""

import dataclasses
from collections.abc import Iterator, Sequence

from pipeline.data.dataset.selection import Selection
from pipeline.feed.certificate import MARGIN, Certificate, OfSlice
from pipeline.feed.measure import Residency
from pipeline.feed.scaling import Line


def render(certificate: Certificate, advice: Sequence[str]) -> str:
    """A table of the stages, then the verdict and the advice, in lines."""
    return "\n".join([*_lines(certificate), "", *_summary(certificate), *(f"  - {one}" for one in advice)])


def _lines(certificate: Certificate) -> list[str]:
    header = ("stage", "examples/s", "MB/s", "CPU µs/example", "bytes/example", "cores wanted")
    measured = (*certificate.stages, certificate.together, *([certificate.cold] if certificate.cold else []))
    rows = [_cells(line) for line in measured]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = ["  ".join(_aligned(cells, widths)) for cells in (header, *rows)]
    rule = "─" * len(lines[0])
    marked = [
        f"{text}{'  ◀ limit' if line is certificate.limiting else ''}"
        for text, line in zip(lines[1:], measured, strict=True)
    ]
    count = len(certificate.stages)
    return [lines[0], rule, *marked[:count], rule, *marked[count:]]


def _cells(line: Line) -> tuple[str, ...]:
    return (
        line.name,
        f"{line.examples_per_s:,.0f}" if line.examples_per_s >= 10 else f"{line.examples_per_s:.2f}",
        f"{line.mb_per_s:,.1f}",
        f"{line.cpu_us:,.2f}",
        f"{line.bytes_per_example:,.0f}",
        f"{line.wanted_cores:.1f}",
    )


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *rest = (
        cell.ljust(w) if not i else cell.rjust(w)
        for i, (cell, w) in enumerate(zip(cells, widths, strict=True))
    )
    return [first, *rest]


def _summary(certificate: Certificate) -> list[str]:
    host, demand = certificate.host, certificate.demand
    lines = [
        f"host      {_cores(host.cores)}; the pipeline took {host.memory_mb:,.0f} MB of memory",
        f"training  a global batch of {demand.global_batch:,} on {_of_slice(certificate)}",
    ]
    if certificate.files:
        lines.append(f"files     {_files(certificate.files)}")
    if certificate.in_flight and certificate.in_flight.is_slow:
        reads = certificate.in_flight
        lines.append(f"reads     {1e3 * reads.latency_s:,.1f} ms each, so {reads.reads:,} at once")
    if host.is_shared:
        lines.append(
            f"beside    other processes took {host.others_cores:.1f} of these cores meanwhile, "
            "and the verdict is what was measured beside them"
        )
    lines.append(f"verdict   {_verdict(certificate)}")
    if certificate.of_slice:
        lines.append(f"expected  {_expected(certificate.of_slice, certificate.demand.slice.name)}")
    return lines


def _files(files: Residency) -> str:
    size = f"{files.bytes / 1e6:,.1f} MB"
    if files.resident is None:
        return f"{size}; how much of them the page cache holds is told only to who may write to them"
    return f"{size}, of which the page cache held {files.resident:.0%}"


def _expected(host: OfSlice, name: str) -> str:
    """What a host of the slice would give: its own cores, at the CPU time that was measured."""
    rate = f"at least {host.examples_per_s:,.0f} examples/s on the {host.cores:,} cores of a host of {name}"
    times = "" if host.headroom is None else f", {_times(host.headroom)}x of what steps take"
    return f"{rate}, if they are like these{times}; the limit there is {host.limiting}"


def _of_slice(certificate: Certificate) -> str:
    chosen = certificate.demand.slice
    hosts = f"{chosen.hosts:,} host{'s' * (chosen.hosts != 1)}"
    return f"{chosen.name}: {hosts}, {chosen.replicas:,} replica{'s' * (chosen.replicas != 1)}"


def _verdict(certificate: Certificate) -> str:
    limit = f"the limit is {certificate.limiting.name}"
    if certificate.headroom is None:
        return (
            f"this host feeds steps of {certificate.shortest_step_ms:,.2f} ms and longer, with a margin of "
            f"{MARGIN - 1:.0%}; {limit}"
        )
    needed = f"{certificate.demand.examples_per_s:,.0f} examples/s a host"
    return (
        f"{certificate.verdict}: {_times(certificate.headroom)}x of the {needed} that steps of "
        f"{certificate.demand.step_ms:g} ms take; {limit}; {_cores_sentence(certificate)}"
    )


def _cores(count: float) -> str:
    return f"{count:,g} core{'s' * (count != 1)}"


def _times(ratio: float) -> str:
    return f"{ratio:,.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


def _cores_sentence(certificate: Certificate) -> str:
    """How many cores are enough, and how many a host of the slice has."""
    if certificate.cores_needed is None:
        return _why_no_cores(certificate)
    alone = "" if certificate.is_fed or certificate.cores_needed > certificate.host.cores else " for it alone"
    verb = "is" if certificate.cores_needed == 1 else "are"
    needed = f"{_cores(certificate.cores_needed)} like these {verb} enough{alone}"
    there = certificate.demand.slice.host_cores
    return needed if there is None else f"{needed}, a host of {certificate.demand.slice.name} has {there:,}"


def _why_no_cores(certificate: Certificate) -> str:
    capped = [line for line in certificate.stuck if certificate.scaling.is_capped(line)]
    if capped:
        names = "; and of ".join(f"{line.name}{_calls(line)}" for line in capped)
        return f"no number of cores is enough, because of {names}"
    not_known = "how many cores are enough is not known, because"
    if certificate.stuck:
        names = " and ".join(line.name for line in certificate.stuck)
        return f"{not_known} {names} waits for something else than a core"
    names = " and ".join(line.name for line in certificate.unsure)
    return f"{not_known} more calls of {names} may run at once than these cores have shown"


def _calls(line: Line) -> str:
    if line.at_once is None:
        return ""
    return f", which runs in {line.at_once:.2g} thread{'s' * (line.at_once != 1)} at most"


# --- What to change in a pipeline that is too slow, by the stage that limits it and by what that stage
# lacks.


_SMALL_SHARD_BYTES = 8 << 20  # 8 MiB: below, opening files takes much of the time of reading them

# By the name of the stage; other stages get the advice that holds for any.
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Files:
    """What is known of the files that the pipeline reads."""

    shards: int
    mean_bytes: float

    @property
    def are_small(self) -> bool:
        return self.shards > 1 and self.mean_bytes < _SMALL_SHARD_BYTES


def files_of(selection: Selection) -> Files:
    return Files(shards=len(selection.shards.paths), mean_bytes=float(selection.shards.bytes.mean()))


def advice(certificate: Certificate, files: Files | None = None) -> tuple[str, ...]:
    """Sentences, the most useful one first; none if training is fed."""
    if certificate.is_fed:
        return ()
    return tuple(_sentences(certificate, files))


def _sentences(certificate: Certificate, files: Files | None) -> Iterator[str]:
    line = certificate.limiting
    if certificate.cold_is_costly:
        yield _what_starting_takes(line, certificate.together)
    else:
        yield _what_it_lacks(certificate, line)
        yield from _what_helps(line, files)
    there = certificate.demand.slice.host_cores or certificate.host.cores
    if certificate.cores_needed and certificate.cores_needed > there:
        yield f"Or take hosts with {certificate.cores_needed:,} cores, more hosts, or a larger model."


def _what_starting_takes(cold: Line, together: Line) -> str:
    return (
        f"{cold.name}: takes {cold.cpu_us:,.0f} µs of the cores for every example, where the page cache "
        f"takes {together.cpu_us:,.1f}: it waits for no disk. Of few files, that is the start of the "
        "pipeline, which a training pays once: measure more data, or leave out --cold."
    )


def _what_helps(line: Line, files: Files | None) -> Iterator[str]:
    if line.name == "read" and files and files.are_small:
        yield (
            f"read: {files.shards:,} shards of {files.mean_bytes / 1024:,.0f} KiB; convert to fewer of them, "
            "of 100 MiB or more."
        )
    yield f"{line.name}: {_OF_STAGE.get(line.name, _OF_ANY_STAGE)}."


def _what_it_lacks(certificate: Certificate, line: Line) -> str:
    bound = certificate.bound(line)
    if bound == "waiting":
        is_disk = line.name == "read" or line is certificate.cold
        source = "storage that is closer or faster: a local disk" if is_disk else "less waiting"
        return (
            f"{line.name}: waits at {line.mb_per_s:,.1f} MB/s with {line.wanted_cores:.1f} cores in use; "
            f"more cores do not help, {source} does."
        )
    if bound == "calls":
        at_once = certificate.scaling.at_once(line)
        own = "; let it run in parallel (no Python function, generator or map of one thread)"
        return (
            f"{line.name}: runs in {at_once:.2g} thread{'s' * (at_once != 1)} at most, so more cores do not "
            f"help{'' if line.name in _OF_STAGE else own}."
        )
    return f"{line.name}: takes {line.cpu_us:,.1f} µs of the cores for every example."
