"""A replayed step on the terminal: a head of three lines, then each example with its features."""

from collections.abc import Iterator, Sequence

from pipeline.base.errors import printable
from pipeline.data.schema.schema import Schema
from pipeline.report import formats
from pipeline.training.replay import format
from pipeline.training.replay.format import Told, told
from pipeline.training.replay.step import ReplayedStep, Spike, Spikes

MOST_FEATURES = 30  # of an example
_CHARACTERS = 60  # of a value
_LINE = 110  # characters
_INDENT = "    "


def step_lines(step: ReplayedStep, schema: Schema, *, total_steps: int) -> Iterator[str]:
    """The step in lines without their ends."""
    yield f"step       {step.step:,} of {total_steps:,}, {format.place_of_step(step)}"
    yield from _judged(step)
    yield f"loss       {format.losses(step.losses)}"
    yield from _examples(step, schema)


def spike_lines(spikes: Spikes, schema: Schema) -> Iterator[str]:
    """The windows that jumped, and in each the steps that stand out."""
    if not spikes.found:
        yield format.no_jump(spikes)
    for spike in spikes.found:
        yield from _spike(spike, schema)
    if spikes.left_out:
        yield format.left_out(spikes)


def _spike(spike: Spike, schema: Schema) -> Iterator[str]:
    yield f"jump       {format.window(spike.window)}"
    yield f"           {format.verdict(spike)}"
    for each in spike.steps:
        yield ""
        yield f"step       {format.spiked_step(each).removeprefix('step ')}"
        yield from _judged(each.replayed)
        yield from _examples(each.replayed, schema)
    yield ""


def _judged(step: ReplayedStep) -> Iterator[str]:
    yield f"judged by  {step.weights.seen_from(step.step)}"
    yield from (f"damaged    {each}" for each in step.weights.damaged)
    if weighted := format.weighted(step):
        yield f"weighted   {weighted}"


def _examples(step: ReplayedStep, schema: Schema) -> Iterator[str]:
    """The step's examples, the worst first: a table of them, each with its features below."""
    rows = [told(example, schema) for example in step.examples]
    weight = ("weight",) if step.weighted_by else ()
    header = ("loss", *weight, _short(schema.label.name, 20), "predicted", "record")
    cells = [_cells(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    yield ""
    yield _aligned(header, widths)
    for row, line in zip(rows, cells, strict=True):
        yield _aligned(line, widths)
        if row.raw:
            yield f"{_INDENT}{_short(f'raw row {row.raw}', _LINE - len(_INDENT))}"
        if row.mixed:
            yield f"{_INDENT}mixed: {row.mixed}"
        yield from _features(row)


def _cells(row: Told) -> tuple[str, ...]:
    weight = () if row.weight is None else (formats.number(row.weight),)
    return (formats.number(row.loss), *weight, _short(row.label), _short(row.prediction), row.place)


def _features(row: Told) -> Iterator[str]:
    """`name=value` pairs, as many on a line as fit."""
    pairs = [f"{_short(name)}={_short(value)}" for name, value in list(row.features.items())[:MOST_FEATURES]]
    more = len(row.features) - len(pairs)
    pairs += [f"… and {more:,} more features: --html and --json have all"] if more else []
    line = _INDENT
    for pair in pairs:
        if line != _INDENT and len(line) + len(pair) > _LINE:
            yield line.rstrip()
            line = _INDENT
        line += f"{pair}  "
    yield line.rstrip()


def _short(text: str, most: int = _CHARACTERS) -> str:
    return formats.shortened(printable(text), most)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    rest = (cell.ljust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
    return "  ".join([cells[0].rjust(widths[0]), *rest]).rstrip()
