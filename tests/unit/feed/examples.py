"""Certificates made up of round numbers."""

from pipeline.feed.certificate import Certificate, Demand, Host
from pipeline.feed.measure import Residency
from pipeline.feed.scaling import HERE, Line, Slice


def line(
    name: str,
    examples_per_s: float,
    *,
    wanted_cores: float = 4.0,
    at_once: float | None = None,
    thread: str = "",
) -> Line:
    """Of an idle host: what wanted a core had it."""
    return Line(
        name=name,
        examples_per_s=examples_per_s,
        cpu_us=1e6 * wanted_cores / examples_per_s,
        bytes_per_example=1_000.0,
        wanted_cores=wanted_cores,
        at_once=at_once,
        thread=thread,
    )


READ, DECODE = line("read", 50_000.0, wanted_cores=1.0), line("decode", 10_000.0)


def certificate(
    *stages: Line,
    step_ms: float | None = 100.0,
    together: float = 8_000.0,
    slice_: Slice = HERE,
    others_cores: float = 0.0,
    cold: Line | None = None,
    files: Residency | None = None,
) -> Certificate:
    """Of a host of 4 cores that spends 500 µs an example, and steps of 1,000 examples."""
    return Certificate(
        stages=stages or (READ, DECODE),
        together=line("together", together),
        cold=cold,
        files=files,
        host=Host(cores=4.0, others_cores=others_cores, memory_mb=80.0),
        demand=Demand(global_batch=1_000, slice=slice_, step_ms=step_ms),
    )
