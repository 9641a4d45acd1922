"""Made-up holdouts: what is true is known, so that a verdict can be right or wrong."""

import numpy as np

from pipeline.gate.scores import Scored


def sigmoid(logits: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-logits))


def binary(rows: int, *, seed: int = 1, extra: dict | None = None, **noise: float | np.ndarray) -> Scored:
    """Models that know each row's true logit but for noise: `champion=0.5`, its spread, [] or [rows]."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1.2, rows)
    labels = (rng.random(rows) < sigmoid(logits)).astype(np.int64)
    made = {model: sigmoid(logits + rng.normal(0, 1, rows) * spread) for model, spread in noise.items()}
    return Scored(task="binary", labels=labels, predictions=made, **(extra or {}))


def regression(rows: int, *, seed: int = 1, extra: dict | None = None, **noise: float) -> Scored:
    """Models that know the true value but for noise."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(10, 3, rows)
    made = {model: truth + rng.normal(0, spread, rows) for model, spread in noise.items()}
    return Scored(task="regression", labels=truth + rng.normal(0, 1, rows), predictions=made, **(extra or {}))
