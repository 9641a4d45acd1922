"""The stages of a preflight: lint, two real steps, lowering, compilation; each with a verdict.

The first error ends what depends on it. All times are estimates: a band from the roofline (the longer of
arithmetic and memory traffic at their peaks) to the compiler's own count of cycles, and what the
sums over a slice's devices add by a model of its links. None knows the feed.
"""

import dataclasses
import itertools
import math
import pathlib
from collections.abc import Callable, Iterator, Mapping

from pipeline.base.errors import InputError
from pipeline.forecast import compiler, links, lint
from pipeline.forecast.compiler import FITS, TOO_LARGE, Compiled
from pipeline.forecast.layers import layer_of
from pipeline.forecast.links import Sums
from pipeline.forecast.lowering import Program, Weighed
from pipeline.forecast.target import Target
from pipeline.report import formats
from pipeline.report.section import Finding

DATA_PARALLEL, SUMS = "data-parallel", "sums over devices"  # names of stages
_RESERVE = 0.9  # a program may take this part of a GPU's memory: the driver and libraries take the rest
LARGEST = 1 << 20  # examples of a device, beyond which a search does not go
_SHORTEST = 1e-5  # seconds of products that say something of a GPU's step: starting one kernel takes as long
_WORTHWHILE = 0.1  # of all outputs: what is less is not worth a recomputation
# Part of the products of a forward pass, of one for weights and of one for inputs that a step needs in any
# case: no gradient of the first layer's inputs, which may be the widest, and none of weights that are frozen.
_LEAST = {False: 2 / 3, True: 1 / 3}
_MANY = 8  # times the memory: outputs from which a batch is first looked at in a part
_SURELY = 4  # times the memory: what no compiler saves, by computing again or by sharing
_GRAIN = 8  # a search looks at multiples of it
_FULL = 1.0 + 1e-9  # share of memory of what does not fit by a hair


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage with its verdict; `is_good` is None where there is something to note, but nothing wrong."""

    name: str
    verdict: str
    is_good: bool | None = True
    findings: tuple[Finding, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Band:
    """Seconds of a step, from `low` to `high`; they are equal where only the roofline is known."""

    low: float
    high: float

    def utilisation(self, flops: float, peak: float) -> tuple[float, float]:
        """The least and the greatest share of the peak, in operations a second."""
        return flops / (peak * self.high), flops / (peak * self.low)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Forecast:
    """What is known of the step on one target.

    Attributes:
      batch: examples of a device.
      used_bytes: memory of a device at the worst moment; an upper bound where nothing was compiled.
      available_bytes: memory of a device.
      largest_batch: the largest batch of a device, where it was searched.
      refused_batch: the smallest that was tried in the search and did not fit; 0 if all did.
    """

    target: Target
    batch: int
    stages: tuple[Stage, ...]
    weighed: Weighed
    compiled: Compiled | None = None
    used_bytes: float = 0.0
    available_bytes: float = 0.0
    band: Band | None = None
    largest_batch: int = 0
    refused_batch: int = 0

    @property
    def is_good(self) -> bool:
        return not any(stage.is_good is False for stage in self.stages)

    @property
    def fits(self) -> bool:
        """Whether the step is known to fit, or expected to; of a slice, on all of its devices."""
        is_refused = any(each.name == DATA_PARALLEL and each.is_good is False for each in self.stages)
        return self.band is not None and self.used_bytes <= self.available_bytes and not is_refused

    @property
    def flops(self) -> float:
        """Operations of a device's step: the compiler's count, or else that of the graph."""
        if self.compiled and self.compiled.flops and not self.compiled.loops:
            return self.compiled.flops
        return (self.weighed.flops or 0.0) * self.batch


def forecast(
    weighed: Weighed,
    target: Target,
    *,
    batch: int,
    policy: str,
    timeout_s: float,
    cache: pathlib.Path | None,
    searches: bool = False,
    of_slice: Callable[[], Weighed] | None = None,
) -> Forecast:
    """Runs the stages that depend on the target.

    Args:
      of_slice: makes the same step, divided among the devices of a TPU slice; None: it is not compiled.
      batch: examples of a device.
      timeout_s: the most seconds of one compilation.
      cache: folder of earlier answers of the compiler; None: there is none.
      searches: whether the largest batch is searched that fits.
    """
    found = tuple(lint.findings(weighed, target, batch=batch, policy=policy))
    noted = Stage(
        name="lint",
        verdict=f"{len(found)} to note" if found else "nothing to note",
        is_good=None if found else True,
        findings=found,
    )
    if not target.accelerator.is_tpu:
        return _by_roofline(weighed, target, batch=batch, noted=noted)

    def compiled_for(lowered: bytes, replicas: int = 1, *, is_quick: bool = False) -> Compiled:
        return compiler.compile_for(
            lowered,
            target.topology,
            timeout_s=timeout_s,
            cache=cache,
            replicas=replicas,
            is_quick=is_quick,
        )

    def compiled_alone(program: Program, examples: int) -> Compiled:
        far = _far_too_large(
            weighed,
            examples,
            available=target.accelerator.memory_gb * 1e9,
            compiled=lambda fewer: compiled_for(weighed.program(fewer).content, is_quick=True),
        )
        return far or compiled_for(program.content)

    try:
        program = weighed.program(batch)
    except InputError as error:
        lowered = Stage(name="lowering", verdict=str(error), is_good=False)
        return Forecast(target=target, batch=batch, stages=(noted, lowered), weighed=weighed)
    said = tuple(program.findings)
    verdict = f"a program of {formats.size(len(program.content))}"
    lowered = Stage(name="lowering", verdict=verdict, is_good=None if said else True, findings=said)
    compiled = compiled_alone(program, batch)
    available = compiled.limit_bytes or target.accelerator.memory_gb * 1e9

    refused: list[int] = []

    def share(examples: int) -> float:
        found = compiled if examples == batch else compiled_alone(weighed.program(examples), examples)
        if found.verdict not in (FITS, TOO_LARGE):
            raise _no_answer(examples, found)
        if found.verdict == FITS:
            return min(1.0, found.peak_bytes / available)
        refused.append(examples)
        return max(_FULL, found.peak_bytes / available) if found.peak_bytes else math.inf

    largest = 0
    if searches and compiled.verdict in (FITS, TOO_LARGE):
        grain = math.lcm(_GRAIN, weighed.micro_batches)
        largest = largest_batch(batch, share, empty=weighed.kept / available, grain=grain)
    done = (noted, lowered, _compilation(weighed, compiled, batch=batch))
    band = _band(weighed, compiled, target, batch=batch) if compiled.verdict == FITS else None
    if compiled.loops:
        done = (*done, _of_loops(compiled))
    if of_slice is not None and compiled.verdict == FITS:
        divided = of_slice()
        together = compiled_for(divided.program(batch).content, target.devices)
        done = (*done, _of_slice(divided, together, batch=batch))
        if sums := _sums(together, target):
            band = with_sums(band, sums) if band else None
            done = (*done, _of_sums(sums))
    return Forecast(
        target=target,
        batch=batch,
        stages=done,
        weighed=weighed,
        compiled=compiled,
        used_bytes=compiled.peak_bytes,
        available_bytes=available,
        band=band,
        largest_batch=largest,
        refused_batch=min(refused, default=0),
    )


def _far_too_large(
    weighed: Weighed, batch: int, *, available: float, compiled: Callable[[int], Compiled]
) -> Compiled | None:
    """What a batch would take that is many times too large; None for others.

    The compiler needs many minutes to refuse such a batch. A quick compilation of a part of it tells how much
    memory an example takes.

    Args:
      available: memory of a device, in bytes.
      compiled: the compiler's quick answer for fewer examples.
    """
    grain = math.lcm(_GRAIN, weighed.micro_batches)
    outputs = weighed.activations(batch)
    fewer = int(batch * available / outputs) // grain * grain if outputs > _MANY * available else 0
    part = compiled(fewer) if fewer else None
    if part is None or part.verdict != FITS:
        return None
    needed = weighed.kept + (part.peak_bytes - weighed.kept) * batch / fewer
    if needed < _SURELY * available:
        return None
    return Compiled(
        verdict=TOO_LARGE,
        peak_bytes=needed,
        limit_bytes=available,
        seconds=part.seconds,
        reckoned_from=fewer,
    )


def _no_answer(examples: int, found: Compiled) -> InputError:
    return InputError(
        "--find_max_batch",
        received=f"{found.verdict} for {examples} examples of a device: {found.message}",
        expected="a program that compiles, or is too large",
        action="Give the compiler more --timeout_s, or leave the flag out.",
    )


def largest_batch(
    first: int, share: Callable[[int], float], *, empty: float = 0.0, grain: int = _GRAIN
) -> int:
    """The largest batch of a device that fits, where one step more does not; 0 if not even a grain does.

    From `LARGEST` on, no larger one is looked for.

    Memory grows nearly in a line with the batch. So the first two guesses follow that line. The third is the
    batch one step beside the second; if the end is not there, the fourth is the middle of what is left. Then
    this begins again. A step is a multiple of the grain, and a sixteenth of the batch at most.

    Args:
      first: a batch to begin with.
      share: part of the memory that a batch takes; above 1: it does not fit; infinite: nobody knows how much.
      empty: part of the memory that no example takes.
      grain: only its multiples are tried: micro-batches divide a batch.
    """
    shares = {0: empty}
    end = 2 * LARGEST - 2 * LARGEST % grain
    low, high, at = 0, end, max(grain, first - first % grain)
    order = itertools.cycle(("line", "line", "beside", "middle"))
    while True:
        shares[at] = share(at)
        low, high = (at, high) if shares[at] <= 1.0 else (low, at)
        if high - low <= step_of(low, grain) or low >= LARGEST:
            return low
        middle = 2 * low if 0 < 2 * low < high and high > LARGEST else (low + high) // 2
        beside = low + step_of(low, grain) if at == low else high - step_of(low, grain)
        kind, full = next(order), _where_full(shares)
        at = {"line": full, "beside": beside}.get(kind, middle) if full else middle
        at = min(max(at - at % grain, low + grain), high - grain)


def _where_full(shares: Mapping[int, float]) -> int:
    """Returns where a line through the two shares nearest to 1 reaches it; 0 where it does not rise."""
    known = sorted(
        (each for each in shares if shares[each] < math.inf), key=lambda each: abs(shares[each] - 1)
    )
    if len(known) < 2:
        return 0
    one, other = sorted(known[:2])
    slope = (shares[other] - shares[one]) / (other - one)
    return round(one + (1.0 - shares[one]) / slope) if slope > 0 else 0


def step_of(batch: int, grain: int = _GRAIN) -> int:
    """The distance up to which a search takes two batches for the same."""
    return max(grain, batch // 16 - batch // 16 % grain)


def _compilation(weighed: Weighed, compiled: Compiled, *, batch: int) -> Stage:
    took = formats.duration(compiled.seconds)
    if compiled.verdict == FITS:
        return Stage(name="compilation", verdict=f"compiles and fits, after {took}")
    if compiled.verdict == TOO_LARGE:
        return Stage(
            name="compilation",
            verdict=f"does not fit: {formats.size(compiled.peak_bytes)} where there are "
            f"{formats.size(compiled.limit_bytes)}{_reckoned(compiled)}"
            if compiled.peak_bytes
            else "does not fit",
            is_good=False,
            findings=tuple(breakdown(weighed, batch=batch)),
        )
    return Stage(
        name="compilation",
        verdict=f"{compiled.verdict}: {compiled.message or 'without a word'}",
        is_good=False,
    )


def _reckoned(compiled: Compiled) -> str:
    fewer = compiled.reckoned_from
    return f", reckoned from a compilation of {fewer:,} examples" if fewer else ""


def _of_slice(weighed: Weighed, compiled: Compiled, *, batch: int) -> Stage:
    """The same step on all devices of the slice, with the sums over them."""
    if compiled.verdict != FITS:
        return dataclasses.replace(_compilation(weighed, compiled, batch=batch), name=DATA_PARALLEL)
    moved = ", ".join(f"{kind} of {formats.size(size)}" for kind, size in compiled.collectives.items())
    return Stage(
        name=DATA_PARALLEL,
        verdict=f"{weighed.replicas} devices compile and fit, after {formats.duration(compiled.seconds)}: "
        f"{formats.size(compiled.peak_bytes)} each; {moved or 'no operation between them'} a step",
    )


def _sums(compiled: Compiled, target: Target) -> Sums | None:
    """The sums of a compiled step; None where there are none, or their time is not known."""
    if compiled.verdict != FITS or not compiled.collectives:
        return None
    # The engine asks only for sums. The compiler may turn them into other operations, which send no more.
    size = sum(compiled.collectives.values())
    return links.sums(target, size=size, operations=compiled.collective_operations)


def with_sums(band: Band, sums: Sums) -> Band:
    """Adds the sums over devices to a step's band: at best its work hides them, at worst it waits for all.

    Where only the least time is known, the result too is only a least time.
    """
    low = max(band.low, sums.least)
    return Band(low=low, high=low if band.low == band.high else band.high + sums.seconds)


def _of_sums(sums: Sums) -> Stage:
    operations = "an operation" if sums.operations == 1 else f"{sums.operations} operations"
    many = "a link" if sums.links == 1 else f"{sums.links} links"
    return Stage(
        name=SUMS,
        verdict=f"{formats.size(sums.bytes)} in {operations}, over {many} of a chip: up to "
        f"{formats.step_time(sums.seconds)} a step, which work may hide; a model's estimate, not measured",
    )


def breakdown(weighed: Weighed, *, batch: int) -> Iterator[Finding]:
    """Where the memory of a step goes, and what takes less."""
    kept = [
        ("weights", weighed.weights),
        ("optimizer", weighed.optimizer),
        ("averages", weighed.averages),
        ("gradients", weighed.gradients),
    ]
    activations = weighed.activations(batch)
    parts = ", ".join(f"{name} {formats.size(size)}" for name, size in kept if size)
    yield Finding(
        text=f"Always there: {parts}. All outputs for {batch:,} examples: {formats.size(activations)}."
    )
    for what, size_of in (
        ("outputs", lambda each: each.outputs * weighed.at_once(batch)),
        ("weights", lambda each: each.weights),
    ):
        largest = sorted(weighed.layers, key=size_of, reverse=True)[:3]
        named = ", ".join(f"{each.name} {formats.size(size_of(each))}" for each in largest)
        yield Finding(text=f"The largest {what}: {named}.")
    if activations > sum(size for _, size in kept):
        advice = "A smaller --config.global_batch, or --config.train.micro_batches=2, halves the outputs."
        pattern, less = weighed.again_with
        if less * weighed.at_once(batch) > _WORTHWHILE * activations:
            advice += (
                f" --config.train.remat=\"('{pattern}',)\" computes insides of layers again, and keeps up to "
                f"{formats.size(less * weighed.at_once(batch))} less."
            )
    else:
        advice = "The weights themselves are large: sgd keeps no state, a narrower model fewer weights."
    yield Finding(
        text="What would fit:", advice=f"{advice} --find_max_batch searches the largest batch of a TPU."
    )


def _of_loops(compiled: Compiled) -> Stage:
    many = "a loop" if compiled.loops == 1 else f"{compiled.loops} loops"
    verdict = f"none is forecast: of {many} the compiler counts one round, and not how many there are"
    advice = "Layers such as LSTM have none with unroll=True; the program is larger then."
    finding = Finding(text="Cycles by layer hold one round, too.", advice=advice)
    return Stage(name="time", verdict=verdict, is_good=None, findings=(finding,))


def _band(weighed: Weighed, compiled: Compiled, target: Target, *, batch: int) -> Band | None:
    if compiled.loops:
        return None
    accelerator = target.accelerator
    moved = max(weighed.moved + batch * weighed.example, compiled.accessed_bytes)
    roofline = max(
        compiled.flops / (accelerator.teraflops * 1e12),
        moved / (accelerator.gb_per_s * 1e9),
    )
    if accelerator.clock_ghz is None or not compiled.cycles:
        return Band(low=roofline, high=roofline)
    counted = sum(compiled.cycles.values()) / (accelerator.clock_ghz * 1e9)
    return Band(low=min(roofline, counted), high=max(roofline, counted))


def _by_roofline(weighed: Weighed, target: Target, *, batch: int, noted: Stage) -> Forecast:
    """A GPU, for which no compiler runs: outputs of layers bound the memory, and peaks the time."""
    accelerator = target.accelerator
    used = weighed.kept + weighed.gradients + weighed.activations(batch) + batch * weighed.example
    available = _RESERVE * accelerator.memory_gb * 1e9
    fits = used <= available
    is_unknown = weighed.flops is None  # nor does anybody know what a loop puts out
    # Nobody knows how much of the memory's traffic fusion will leave, so the bound is arithmetic alone.
    least = _LEAST[weighed.is_frozen] * (weighed.flops or 0.0) * batch / (accelerator.teraflops * 1e12)
    is_told = least >= _SHORTEST
    is_certain = weighed.kept > available
    verdict = f"{'fits' if fits else 'may not fit'}, if all outputs of layers are kept"
    verdict += "; outputs within loops are not counted" if is_unknown else ""
    verdict = "does not fit: too much is always there" if is_certain else verdict
    is_sure = fits and not is_unknown
    stage = Stage(
        name="memory",
        verdict=f"{verdict} ({formats.size(used)} of {formats.size(available)})",
        is_good=True if is_sure else False if is_certain else None,
        findings=() if fits else tuple(breakdown(weighed, batch=batch)),
    )
    timed = ()
    if not is_told:
        least_us = f"{least / 1e-6:.2g} µs"
        short = f"the products would take {least_us} at the peak, and launching and memory take longer"
        why = "a loop's rounds, or a product's size, are not known" if is_unknown else short
        timed = (Stage(name="time", verdict=f"none is forecast: {why}", is_good=None),)
    # Work of the backward pass may hide them: the least time stays what it is.
    summed = links.sums(target, size=weighed.gradients, operations=1)
    return Forecast(
        target=target,
        batch=batch,
        stages=(noted, *timed, stage, *([_of_sums(summed)] if summed else ())),
        weighed=weighed,
        used_bytes=used,
        available_bytes=available,
        band=Band(low=least, high=least) if is_told else None,
    )


def by_layer(forecast: Forecast, *, most: int) -> list[tuple[str, float]]:
    """Layers with their shares of the compiler's cycles, the most first."""
    compiled = forecast.compiled
    if compiled is None or not compiled.cycles:
        return []
    names = {each.name for each in forecast.weighed.layers}
    total, found = sum(compiled.cycles.values()), {}
    for scope, cycles in compiled.cycles.items():
        name = layer_of(scope, names)
        found[name] = found.get(name, 0) + cycles
    ranked = sorted(found.items(), key=lambda each: -each[1])[:most]
    return [(name, cycles / total) for name, cycles in ranked]


def memory_by_layer(forecast: Forecast, *, most: int) -> list[tuple[str, int, int]]:
    """Layers with the bytes of their weights and of their outputs, the largest first.

    Outputs count for all examples that are in memory at once. This is an upper bound: some are not kept.
    """
    examples = forecast.weighed.at_once(forecast.batch)
    sizes = [(each.name, each.weights, each.outputs * examples) for each in forecast.weighed.layers]
    return sorted(sizes, key=lambda each: -each[1] - each[2])[:most]
