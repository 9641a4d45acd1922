"""The certificate on a terminal."""

from collections.abc import Sequence

from pipeline.data.feed.certificate import MARGIN, Certificate, Line


def render(certificate: Certificate, advice: Sequence[str]) -> str:
    """A table of the stages, then the verdict and the advice, in lines."""
    return "\n".join([*_lines(certificate), "", *_summary(certificate), *(f"  - {one}" for one in advice)])


def _lines(certificate: Certificate) -> list[str]:
    header = ("stage", "examples/s", "MB/s", "CPU µs/example", "bytes/example", "cores busy")
    rows = [_cells(line) for line in (*certificate.stages, certificate.together)]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = ["  ".join(_aligned(cells, widths)) for cells in (header, *rows)]
    rule = "─" * len(lines[0])
    marked = [
        f"{text}{'  ◀ limit' if line is certificate.limiting else ''}"
        for text, line in zip(lines[1:-1], certificate.stages, strict=True)
    ]
    return [lines[0], rule, *marked, rule, lines[-1]]


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
        f"host      {host.cores:g} cores; the pipeline took {host.memory_mb:,.0f} MB of memory",
        f"training  a global batch of {demand.global_batch:,} on {_of_slice(certificate)}",
    ]
    if host.is_shared:
        lines.append(
            f"warning   other processes took {host.others_cores:.1f} cores meanwhile; what kept all "
            "cores busy is corrected for that, the rest is not: measure again on an idle host"
        )
    lines.append(f"verdict   {_verdict(certificate)}")
    return lines


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
        f"{certificate.verdict}: {certificate.headroom:,.2f}x of the {needed} that steps of "
        f"{certificate.demand.step_ms:g} ms take; {limit}; {_cores_sentence(certificate)}"
    )


def _cores_sentence(certificate: Certificate) -> str:
    """How many cores are enough, and how many a host of the slice has."""
    if certificate.cores_needed is None:
        stuck = " and ".join(line.name for line in certificate.stuck)
        return f"no number of cores is enough, because {stuck} would not be faster"
    needed = f"{certificate.cores_needed:,} cores like these are enough"
    there = certificate.demand.slice.host_cores
    return needed if there is None else f"{needed}, a host of {certificate.demand.slice.name} has {there:,}"
