"""A line for each thing that happens."""

from collections.abc import Iterator, Mapping, Sequence

from pipeline.release.cycles.planning.plan import Plan
from pipeline.release.cycles.spans.survey import Span

AFTER_DRIFT = (
    "look at it; then `release --reason=…` lets it pass, config.spans.exclude leaves a span out, and "
    "config.drift.ignore a feature that always moves, such as a date"
)


def of_span(span: Span) -> str:
    """Of one that was converted just now."""
    if span.unusable:
        return f"span {span.name}: left out, {span.unusable}"
    return f"span {span.name}: {span.rows:,} rows"


def of_cycle(plan: Plan, receipt: Mapping) -> str:
    """Above its stages."""
    how = "goes on" if plan.goes_on else "begins"
    due = f": {'; '.join(receipt['due'])}" if receipt["due"] else ""
    return "\n  ".join([f"cycle {plan.id} {how}{due}", *plan.rewritten, window_of(receipt)])


def window_of(receipt: Mapping) -> str:
    """What a cycle is trained on, judged on and compared with."""
    trained = _range([span["name"] for span in receipt["spans"] if "training" in span["roles"]])
    judged = _range([span["name"] for span in receipt["spans"] if "holdout" in span["roles"]])
    champion = receipt["champion"].get("version")
    against = f"against version {champion}" if champion else "the first model"
    return f"trained on {trained}, judged on {judged}, {against}"


def of_stage(name: str, said: Mapping) -> str:
    """What a stage came to, in a few words."""
    return _STAGES[name](said)


def held(found: Mapping) -> str:
    """Why nothing happens."""
    since = f" since {found['at'][:16]}" if found["at"] else ""
    return f"held by {found['by'] or 'a person'}{since}: {found['reason']}"


def after_hold(found: Mapping) -> str:
    """What a person does next."""
    return AFTER_DRIFT if found["by"] == "drift" else "`release --reason=…` ends the hold"


def of_store(said: Mapping) -> Iterator[str]:
    """What the store serves, and a line for each difference; `said` is what store.said says."""
    if "error" in said:
        yield f"store {said['place']}: it cannot be looked at: {said['error']}"
        return
    serves = f"version {said['served']} is served" if said["served"] is not None else "nothing is served"
    yield f"store {said['place']}: {serves}"
    if said["foreign"]:
        yield f"  {_numbers(said['foreign'])} there was never published here: nothing is written to it"
    if said["missing"]:
        yield f"  it lacks {_numbers(said['missing'])}; `reconcile` publishes it"
    if said["removed"]:
        yield f"  it has {_numbers(said['removed'])} that should not be there; `reconcile` removes it"
    if said["unfinished"]:
        yield "  a process writes there, or was killed while it did"


def _numbers(versions: Sequence[int]) -> str:
    return f"version{'s' if len(versions) > 1 else ''} {', '.join(map(str, sorted(versions)))}"


def _range(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"span {names[0]}"
    return f"{len(names)} spans, {names[0]} to {names[-1]}"


def _data(said: Mapping) -> str:
    training, holdout = (said[part]["rows"] for part in ("training", "holdout"))
    splits = ", ".join(f"{split} {rows:,}" for split, rows in training.items())
    return (
        f"{sum(training.values()):,} rows to train with ({splits}), {sum(holdout.values()):,} to judge with"
    )


def _train(said: Mapping) -> str:
    numbers = [f"{key} {value:.4f}" for key, value in said["metrics"].items() if isinstance(value, float)]
    return ", ".join(numbers[:3])


def _export(said: Mapping) -> str:
    return f"step {said['step']:,}, {said['parameters']:,} parameters"


def _checked(said: Mapping) -> str:
    return "passed" if said["passed"] else f"FAILED: {said['reasons'][0]}"


def _evaluate(said: Mapping) -> str:
    return f"{said['rows']:,} rows asked of {', '.join(said['models'])}"


def _decide(said: Mapping) -> str:
    return f"{said['decision']}: {said['reasons'][0] if said['reasons'] else ''}"


def _publish(said: Mapping) -> str:
    return f"version {said['version']}" if said["version"] else f"nothing, {said['why']}"


def _verify(said: Mapping) -> str:
    if said["version"] is None:
        return "nothing to verify"
    return "it serves" if said["passed"] else f"TAKEN BACK: {said['reasons'][0]}"


def _gc(said: Mapping) -> str:
    told = [
        f"{len(said[key])} {key} {verb}"
        for key, verb in (("versions", "removed"), ("cycles", "emptied"))
        if said[key]
    ]
    return ", ".join(told) or "nothing to remove"


_STAGES = {
    "data": _data,
    "train": _train,
    "export": _export,
    "parity": _checked,
    "evaluate": _evaluate,
    "infra": _checked,
    "decide": _decide,
    "publish": _publish,
    "verify": _verify,
    "gc": _gc,
}
