"""Where the wall time of a run went, over all its processes: one line, and a section of the report."""

from collections.abc import Mapping, Sequence

from pipeline.training.report.drawing import formats
from pipeline.training.report.drawing.distributions import Share, stacked
from pipeline.training.report.drawing.markup import Markup, folded, join, table, tag
from pipeline.training.report.sections.inputs import ReportInputs
from pipeline.training.state.time_spent import KINDS, Process, Spent, time_spent

_SHOWN = 0.0005  # of the time: less is 0.0 % in the line
_MOST_PROCESSES = 20  # rows of the table
_NAMES = {"lost": "lost work", "start": "start-up", "unwritten": "not written"}  # others as in KINDS


def time_line(lines: Sequence[Mapping]) -> str:
    """`time       2 min 03 s in 2 processes: productive 71.0 %, compile 12.1 %, …`."""
    spent = time_spent(lines)
    if spent is None:
        return "time       not known: there is no ledger.jsonl"
    shares = [f"{_name(kind)} {formats.percent(share)}" for kind, share in spent.shares() if share >= _SHOWN]
    return f"time       {_whole(spent)}: {', '.join(shares)}{_longest(spent)}"


def time_account_section(inputs: ReportInputs) -> Markup | None:
    """A bar of all the time, what is in each part, and the processes; None where there is no ledger."""
    spent = time_spent(inputs.ledger)
    if spent is None or not spent.wall_s:
        return None
    bar = stacked(
        [Share(name=_name(kind), fraction=share, style=f"time-{kind}") for kind, share in spent.shares()]
    )
    rows = [
        [_name(kind), formats.duration(spent.seconds[kind]), formats.percent(share), _what(kind, spent)]
        for kind, share in spent.shares()
    ]
    account = table(["", "time", "share", "what it is"], rows, numbers=frozenset({1, 2}))
    whole = tag("p", tag("b", _whole(spent)), f" of wall time. {_away(spent)}")
    return tag(
        "section",
        tag("h2", "Where the time went"),
        whole,
        bar,
        account,
        _processes(spent.processes) if len(spent.processes) > 1 else None,
        id="time",
    )


def _what(kind: str, spent: Spent) -> str:
    return f"{KINDS[kind]}{_longest(spent)}" if kind == "checkpoint" else KINDS[kind]


def _longest(spent: Spent) -> str:
    """The longest stall of training by a checkpoint."""
    return (
        f"; one save held training up for {spent.longest_save_s:.3f} s at most"
        if spent.longest_save_s
        else ""
    )


def _name(kind: str) -> str:
    return _NAMES.get(kind, kind)


def _whole(spent: Spent) -> str:
    number = len(spent.processes)
    return f"{formats.duration(spent.wall_s)} in {number:,} process{'es' * (number != 1)}"


def _away(spent: Spent) -> str:
    if len(spent.processes) == 1:
        return ""
    return f"Between the processes another {formats.duration(spent.away_s)} passed, which is not counted."


def _processes(processes: Sequence[Process]) -> Markup:
    rows = [
        [formats.count(one.number), _step(one.from_step), _step(one.step), formats.duration(one.wall_s), end]
        for one in processes[-_MOST_PROCESSES:]
        for end in ["killed" if one.was_killed else ""]
    ]
    more = len(processes) - len(rows)
    return folded(
        f"{len(processes):,} processes",
        table(["process", "from step", "to step", "time", "end"], rows, numbers=frozenset({0, 1, 2, 3})),
        join(tag("p", f"… and {more:,} before them.", class_="note")) if more else None,
    )


def _step(step: int | None) -> str:
    return formats.NOT_KNOWN if step is None else formats.count(step)
