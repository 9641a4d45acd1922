"""Does the gate decide as often right as it says? Simulates holdouts whose truth is known.

  python -m benchmarks.gate

Each line is a figure beside its bound, over many holdouts (benchmarks/release/holdouts.py), every one judged
by the gate itself. Exit code 1 if a bound is missed. Seeds are fixed.

Hardware: any, one core. Duration: about twelve minutes.
"""

import dataclasses
import gc
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from absl import app
from tqdm import tqdm

from benchmarks.release import holdouts
from benchmarks.release.holdouts import World
from pipeline.gate.measurement import measure
from pipeline.gate.metrics import metric_of
from pipeline.gate.rules import GateRules
from pipeline.gate.scores import Scored, prepare
from pipeline.gate.statistics.estimates import deciding_examples
from pipeline.gate.verdict import PROMOTE, REJECT, Verdict, evaluate

CHAMPION, BETTER, WORSE = 0.35, 0.2, 0.5  # the noise of models
NONE = {"challenger": 0.0, "champion": 0.0}
RATES = (0.01, 0.1, 0.22)  # of the positive class
BIAS = 0.1  # the spread of chance in the bias of a training, in log-odds
CHANCE = 2.5  # percent of equal models that may be promoted: half of what a confidence of 95% leaves open
RETRAINS, STEP = 30, 1.03  # each challenger has 3% more noise than the champion


@dataclasses.dataclass(frozen=True, kw_only=True)
class Figure:
    """What was measured, and from where to where it may be; in `unit`.

    Where it is a share of `trials`, it may miss by chance: by 2.6 standard errors, as in 1 of 200 figures.
    """

    name: str
    value: float
    least: float = -math.inf
    most: float = math.inf
    unit: str = "%"
    trials: int = 0

    @property
    def is_met(self) -> bool:
        return self.least - self._chance(self.least) <= self.value <= self.most + self._chance(self.most)

    def _chance(self, bound: float) -> float:
        is_share = self.trials and math.isfinite(bound)
        return 2.6 * math.sqrt(bound * (100 - bound) / self.trials) if is_share else 0.0

    def __str__(self) -> str:
        ends = (("≥", self.least), ("≤", self.most))
        bound = ", ".join(f"{sign} {end:g}" for sign, end in ends if math.isfinite(end))
        outcome = "met" if self.is_met else "MISSED"
        return f"{self.name:<74} {self.value:>8.3g} {self.unit:<5} {bound:<12} {outcome}"


def equal_models(world: World, *, trials: int, rows: int = 2_000) -> Iterator[Figure]:
    """Two trainings of the same quality: chance alone must not promote."""
    for metric in ("log_loss", "auc", "accuracy"):
        promoted = _percent(
            trials,
            lambda: world.holdout(rows, challenger=CHAMPION, champion=CHAMPION),
            GateRules(metric=metric),
            lambda verdict: verdict.decision == PROMOTE,
        )
        yield Figure(
            name=f"equal models promoted, superiority by {metric}, {rows:,} rows", value=promoted, most=5
        )


def lopsided_holdouts(*, trials: int, rows: int = 2_000) -> Iterator[Figure]:
    """Equal models where few clusters, or few rows of a class, tell nearly all."""
    for name, metric, world in (
        ("one cluster has 80% of the rows", "log_loss", {"cluster": 20, "largest": 0.8}),
        ("one cluster has 20% of the rows", "log_loss", {"cluster": 20, "largest": 0.2}),
        ("1 row in 100 is positive", "auc", {"mean": -5.2}),
    ):
        made = World(rng=np.random.default_rng(6), **world)
        promoted = _percent(
            trials,
            lambda made=made: made.holdout(rows, challenger=CHAMPION, champion=CHAMPION),
            GateRules(metric=metric, resamples=100),
            lambda verdict: verdict.decision == PROMOTE,
        )
        yield Figure(name=f"equal models promoted by {metric}, where {name}", value=promoted, most=5)


def wrong_promotions(*, trials: int, rows: int = 2_000) -> Iterator[Figure]:
    """Equal models on holdouts that tell less than their rows."""
    equal = {"challenger": CHAMPION, "champion": CHAMPION}

    def figure(name: str, made: Callable[[], Scored], rules: GateRules | None = None) -> Figure:
        promoted = _percent(trials, made, rules or GateRules(), lambda verdict: verdict.decision == PROMOTE)
        return Figure(name=f"equal models promoted: {name}", value=promoted, most=CHANCE, trials=trials)

    for seed, rate in enumerate(RATES):
        world = World(rng=np.random.default_rng(70 + seed), mean=holdouts.mean_logit(rate))
        for metric in ("log_loss", "brier", "accuracy", "auc"):
            made = lambda world=world: world.holdout(rows, **equal)  # noqa: E731
            yield figure(f"{rate:.0%} positive, {metric}", made, GateRules(metric=metric))
        other = holdouts.equal_bias(-0.2, mean=world.mean)
        for name, bias in (("less", (-0.2, other)), ("more", (other, -0.2))):
            biases = dict(zip(equal, bias, strict=True))
            made = lambda world=world, biases=biases: world.holdout(rows, bias=biases, **NONE)  # noqa: E731
            yield figure(f"{rate:.0%} positive, the challenger says it {name}", made)
    world = World(rng=np.random.default_rng(80))
    for number, times in ((10, 100), (200, 10), (1_000, 2)):
        made = lambda number=number, times=times: _copied(world.holdout(number, **equal), times)  # noqa: E731
        for metric in ("log_loss", "accuracy", "auc"):
            yield figure(f"{number:,} rows {times} times, {metric}", made, GateRules(metric=metric))
    drawn = lambda: world.holdout(1_000, **equal).take(world.rng.integers(1_000, size=rows))  # noqa: E731
    yield figure("rows drawn from 1,000, some often", drawn)
    for share in (1 / rows, 0.01, 0.2):
        made = lambda share=share: _without(world.holdout(rows, **equal), share)  # noqa: E731
        yield figure(f"{share:.2%} of the rows without a number of the champion", made)


def biased_models(*, trials: int, rows: int = 2_000) -> Iterator[Figure]:
    """Models that differ by the chance of training, in their bias: some are truly better."""
    world = World(rng=np.random.default_rng(90), mean=holdouts.mean_logit(0.22))
    honest, wrong, late = 0, 0, 0
    for _ in _progress(trials):
        bias = {model: float(world.rng.normal(0, BIAS)) for model in NONE}
        scored = world.holdout(rows, bias=bias, **NONE)
        cost = {model: holdouts.log_loss(0.0, bias=each, mean=world.mean) for model, each in bias.items()}
        is_promoted = evaluate(scored, GateRules()).decision == PROMOTE
        honest += is_promoted
        wrong += is_promoted and cost["challenger"] >= cost["champion"]
        unlabelled = dataclasses.replace(scored, labels=np.zeros(rows, np.int64))
        late += evaluate(unlabelled, GateRules()).decision == PROMOTE
    name = f"a bias by chance, s.d. {BIAS}: worse models among the {honest / trials:.1%} promoted"
    yield Figure(name=name, value=100 * wrong / trials, most=CHANCE, trials=trials)
    yield Figure(name="the same where no label has arrived: promoted", value=100 * late / trials, most=0)


def better_at_the_stated_size(*, trials: int, pilot: int = 50_000) -> Iterator[Figure]:
    """A better model, on as many examples as an undecided verdict says would decide."""
    changes = {
        "": lambda made: made,
        ", each row 4 times": lambda made: _copied(made.take(np.arange(made.rows // 4)), 4),
        ", 1% without a number of the champion": _without,
    }
    for seed, rate in enumerate((*RATES, 0.5)):
        world = World(rng=np.random.default_rng(100 + seed), mean=holdouts.mean_logit(rate))
        for name, change in changes.items():

            def holdout(rows: int, world=world, change=change) -> Scored:
                return change(world.holdout(rows, challenger=BETTER, champion=2 * CHAMPION))

            size = _stated_size(holdout, pilot=pilot)
            verdicts = _verdicts(trials, lambda holdout=holdout, size=size: holdout(size), GateRules())
            promoted = 100 * float(np.mean([verdict.decision == PROMOTE for verdict in verdicts]))
            name = f"a better model promoted on the {size:,} rows that are stated, {rate:.0%} positive{name}"
            yield Figure(name=name, value=promoted, least=80, trials=trials)


def _stated_size(made: Callable[[int], Scored], *, pilot: int) -> int:
    """The rows that a verdict asks for if it measures the true difference, here that of a large holdout."""
    scored, rules = made(pilot), GateRules()
    metric = metric_of(scored.task, rules.metric)
    sample = prepare(scored.take(scored.has_number("champion"))).sample(metric)
    difference = measure(metric, sample, rules).difference("challenger", "champion")
    options = {"rows": sample.rows, "confidence": rules.confidence, "power": rules.power}
    size = max(deciding_examples(difference, null=0.0, **options), rules.least_rows)
    while (open_ := evaluate(made(size), rules)).checks[0].name == "holdout":
        size = max(open_.examples, size + 1)
    return size


def _copied(scored: Scored, times: int) -> Scored:
    return scored.take(np.tile(np.arange(scored.rows), times))


def _without(scored: Scored, share: float = 0.01) -> Scored:
    """The same, where the champion gives no number for the first rows."""
    champion = scored.predictions["champion"].copy()
    champion[: math.ceil(share * scored.rows)] = np.nan
    return dataclasses.replace(scored, predictions={**scored.predictions, "champion": champion})


def better_model(world: World, *, trials: int, rows: int = 6_000) -> Iterator[Figure]:
    """One that is truly better, by a stated number of nats."""
    effect = holdouts.log_loss(CHAMPION) - holdouts.log_loss(BETTER)
    promoted = _percent(
        trials,
        lambda: world.holdout(rows, challenger=BETTER, champion=CHAMPION),
        GateRules(),
        lambda verdict: verdict.decision == PROMOTE,
    )
    yield Figure(
        name=f"a model better by {effect:.4f} nats promoted, {rows:,} rows", value=promoted, least=90
    )


def equal_slices(world: World, *, trials: int, slices: int = 20, rows: int = 200) -> Iterator[Figure]:
    """Two equal models on many slices: chance on a slice must not reject one."""
    # Every model keeps this margin, so only the slices can reject one.
    rejected = _percent(
        trials,
        lambda: world.holdout(slices * rows, slices=slices, challenger=CHAMPION, champion=CHAMPION),
        GateRules(slices=("slice",), least_slice=rows, rule="non_inferiority", margin=1.0),
        lambda verdict: verdict.decision == REJECT,
    )
    yield Figure(name=f"{slices} slices of {rows} rows without a regression block", value=rejected, most=5)


def clusters(world: World, *, trials: int, rows: int = 2_000) -> Iterator[Figure]:
    """Rows in clusters: an interval of 95% holds the truth 95 times of 100."""
    held = {"log_loss": [], "auc": []}
    truth = {
        "log_loss": holdouts.log_loss(CHAMPION) - holdouts.log_loss(WORSE),
        "auc": holdouts.auc(WORSE) - holdouts.auc(CHAMPION),
    }
    made = lambda: world.holdout(rows, challenger=WORSE, champion=CHAMPION)  # noqa: E731
    for verdict in _verdicts(trials, made, GateRules(resamples=200)):
        for metric in held:
            held[metric].append(_holds(verdict, metric, truth[metric]))
    for metric, found in held.items():
        number, size = rows // world.cluster, world.cluster
        name = f"95% intervals of {metric} that hold the truth, {number} clusters of {size}"
        yield Figure(name=name, value=100 * float(np.mean(found)), least=93, most=97)


def slow_decline(world: World, *, chains: int, rows: int = 8_000, margin: float = 0.01) -> Iterator[Figure]:
    """Retrains that are each a little worse than the champion, by less than the margin."""
    rules = GateRules(rule="non_inferiority", margin=margin)
    for anchor, number in ((True, chains), (False, math.ceil(chains / 3))):
        lost = [_lost(world, rules, rows=rows, anchor=anchor) for _ in _progress(number)]
        name = f"{RETRAINS} retrains, each 3% noisier: nats lost, the 95th of 100 chains"
        if anchor:
            yield Figure(name=name, value=float(np.quantile(lost, 0.95)), most=2 * margin, unit="nats")
        else:
            name = "the same without an anchor, the median chain: what it is that stops them"
            yield Figure(name=name, value=float(np.median(lost)), least=2 * margin, unit="nats")


def _lost(world: World, rules: GateRules, *, rows: int, anchor: bool) -> float:
    """How much worse the last champion truly is than the first; each retrain has a new holdout."""
    champion, frozen = CHAMPION, {"anchor": CHAMPION} if anchor else {}
    for _ in range(RETRAINS):
        scored = world.holdout(rows, challenger=champion * STEP, champion=champion, **frozen)
        if evaluate(scored, rules).decision == PROMOTE:
            champion *= STEP
    return holdouts.log_loss(champion) - holdouts.log_loss(CHAMPION)


def _holds(verdict: Verdict, metric: str, truth: float) -> bool:
    """Whether the interval of the difference to the champion holds the truth."""
    found = next(result for result in verdict.metrics if result.name == metric).differences["champion"]
    return found.low <= truth <= found.high


def _percent(
    trials: int, made: Callable[[], Scored], rules: GateRules, fits: Callable[[Verdict], bool]
) -> float:
    return 100 * float(np.mean([fits(verdict) for verdict in _verdicts(trials, made, rules)]))


def _verdicts(trials: int, made: Callable[[], Scored], rules: GateRules) -> Iterator[Verdict]:
    return (evaluate(made(), rules) for _ in _progress(trials))


def _progress(trials: int) -> tqdm:
    return tqdm(range(trials), leave=False, disable=None)


def figures(*, part: float = 1.0) -> Iterator[Figure]:
    """All of them, each from a seed of its own; `part` of the trials."""

    def world(seed: int, cluster: int = 1) -> World:
        return World(rng=np.random.default_rng(seed), cluster=cluster)

    yield from equal_models(world(1), trials=round(3_000 * part))
    yield from lopsided_holdouts(trials=round(500 * part))
    yield from wrong_promotions(trials=round(800 * part))
    yield from biased_models(trials=round(1_000 * part))
    yield from better_at_the_stated_size(trials=round(200 * part))
    yield from better_model(world(2), trials=round(1_000 * part))
    yield from equal_slices(world(3), trials=round(2_000 * part))
    yield from clusters(world(4, cluster=20), trials=round(1_000 * part))
    yield from slow_decline(world(5), chains=math.ceil(40 * part))


def main(argv: Sequence[str]) -> int:
    del argv
    gc.freeze()  # statsmodels collects garbage at each correction, 0.1 s where every module is looked through
    missed = 0
    for figure in figures():
        print(figure, flush=True)
        missed += not figure.is_met
    return int(missed > 0)


if __name__ == "__main__":
    app.run(main)
