"""Replays random steps of runs, and compares each batch with all that its step received."""

import dataclasses
import random
import time
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from pipeline.training.replay.replay import Replay
from tests.pipeline.training.replaying.recorded import Batch
from tests.replay.runs import Trained


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pair:
    """A replayed step of a run."""

    run: str
    step: int
    is_equal: bool  # bit for bit, to what the step received, each time
    seconds: float


def replay_pairs(trained: Mapping[str, Trained], *, pairs: int, draw: random.Random) -> list[Pair]:
    """Replays so many (run, step), drawn at random; starting up is not timed."""
    replays = {name: _started(run) for name, run in trained.items()}
    chosen = [_drawn(trained, draw) for _ in range(pairs)]
    return [_replay(name, step, replays[name], trained[name].received[step]) for name, step in chosen]


def rows_of(pairs: Sequence[Pair], trained: Mapping[str, Trained]) -> list[dict[str, object]]:
    """A table: a row a run, and one of all."""
    by_run = {name: [pair for pair in pairs if pair.run == name] for name in trained}
    rows = [_row(name, mine, trained[name].repeated) for name, mine in by_run.items() if mine]
    return [*rows, _row("all", pairs, sum(run.repeated for run in trained.values()))]


def p95_s(pairs: Sequence[Pair]) -> float:
    """Seconds that 95 in 100 of the replays took at most."""
    return float(np.quantile([pair.seconds for pair in pairs], 0.95))


def _started(run: Trained) -> Replay:
    replay = Replay(run.workdir)
    replay.step(0, examples=1)
    return replay


def _drawn(trained: Mapping[str, Trained], draw: random.Random) -> tuple[str, int]:
    name = draw.choice(list(trained))
    return name, draw.choice(sorted(trained[name].received))


def _replay(name: str, step: int, replay: Replay, expected: Sequence[Batch]) -> Pair:
    begun = time.perf_counter()
    replay.step(step, examples=10)
    seconds = time.perf_counter() - begun
    batch = _bits(*(replay.stream.batch(step)))
    is_equal = all(batch == _bits(*each) for each in expected)
    if not is_equal:
        print(f"{name}, step {step}: another batch", flush=True)
    return Pair(run=name, step=step, is_equal=is_equal, seconds=seconds)


def _bits(inputs: Mapping[str, object], targets: object) -> dict[str | int, tuple]:
    """Type, shape and bytes of each tensor of a batch."""
    tensors = {**inputs, **dict(enumerate(tf.nest.flatten(targets)))}
    arrays = {name: np.asarray(each) for name, each in tensors.items()}
    return {name: (each.dtype, each.shape, each.tobytes()) for name, each in arrays.items()}


def _row(name: str, pairs: Sequence[Pair], repeated: int) -> dict[str, object]:
    seconds = np.array([pair.seconds for pair in pairs])
    return {
        "run": name,
        "trained twice": repeated,
        "replayed": len(pairs),
        "bit-equal": sum(pair.is_equal for pair in pairs),
        "p50 s": float(np.quantile(seconds, 0.5)),
        "p95 s": p95_s(pairs),
        "most s": float(seconds.max()),
    }
