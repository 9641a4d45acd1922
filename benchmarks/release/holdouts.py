"""Simulated holdouts, and what is true of the models that scored them.

An example has a true logit, drawn from N(0, 1.2²), and a label drawn from it. A model knows the logit but for
noise of its own, whose spread is the model's quality: the less, the better.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np
from scipy import optimize

from pipeline.gate.scores import Scored

SPREAD = 1.2  # of the true logits


@dataclasses.dataclass(frozen=True, kw_only=True)
class World:
    """Where holdouts come from.

    Attributes:
      cluster: how many neighbouring rows share half of the variance of a model's noise; 1: none do.
      largest: the part of all rows that is one more cluster.
      mean: the mean of the true logits; the true values of models below hold at 0.
    """

    rng: np.random.Generator
    cluster: int = 1
    largest: float = 0.0
    mean: float = 0.0

    def holdout(
        self, rows: int, *, slices: int = 0, bias: Mapping[str, float] | None = None, **noise: float
    ) -> Scored:
        """Rows scored by models with noise of these spreads, `champion=0.35`; `slices` of equal size.

        `bias`: what is added to every logit of a model; 0 where it is not named.
        """
        logits = self.rng.normal(self.mean, SPREAD, rows)
        clusters = np.arange(rows) // self.cluster
        if self.largest:  # the first ones are one
            clusters = np.maximum(clusters - round(self.largest * rows / self.cluster) + 1, 0)
        return Scored(
            task="binary",
            labels=(self.rng.random(rows) < _sigmoid(logits)).astype(np.int64),
            predictions={
                model: _sigmoid(logits + (bias or {}).get(model, 0.0) + spread * self._noise(clusters))
                for model, spread in noise.items()
            },
            clusters=clusters if self.cluster > 1 else None,
            slices={"slice": np.char.mod("%d", np.arange(rows) % slices)} if slices else {},
        )

    def _noise(self, clusters: np.ndarray) -> np.ndarray:
        """Draws noise of variance 1, [rows]."""
        own = self.rng.normal(size=len(clusters))
        if self.cluster == 1:
            return own
        return (own + self.rng.normal(size=clusters[-1] + 1)[clusters]) / np.sqrt(2)


def mean_logit(rate: float) -> float:
    """The mean of true logits where this share of the labels is positive."""
    points, weights = _normal()
    return optimize.brentq(lambda mean: weights @ _sigmoid(mean + SPREAD * points) - rate, -20, 20)


def equal_bias(bias: float, *, mean: float) -> float:
    """The bias on the other side of 0 that costs as much log loss."""
    cost = lambda each: log_loss(0.0, bias=each, mean=mean) - log_loss(0.0, bias=bias, mean=mean)  # noqa: E731
    return optimize.brentq(cost, *sorted((-1e-3 * bias, -5 * bias)))


def log_loss(noise: float, *, bias: float = 0.0, mean: float = 0.0) -> float:
    """The true one of a model with noise of that spread, in nats: Gauss-Hermite quadrature."""
    points, weights = _normal()
    logits = mean + SPREAD * points[:, None]
    predicted = logits + bias + noise * points
    losses = np.logaddexp(0, predicted) - _sigmoid(logits) * predicted
    return float(weights @ losses @ weights)


def auc(noise: float) -> float:
    """The true area under the ROC curve of such a model, by the trapezoidal rule over what it predicts."""
    points, weights = _normal()
    spread = np.hypot(SPREAD, noise)
    predicted = np.linspace(-9, 9, 4_001) * spread
    density = np.exp(-((predicted / spread) ** 2) / 2)
    # The true logit of a given prediction is normal, nearer to 0, and less spread.
    logits = predicted[:, None] * (SPREAD / spread) ** 2 + points * (SPREAD * noise / spread)
    positive = density * (_sigmoid(logits) @ weights)
    negative = density - positive
    below = np.cumsum(negative) - negative / 2
    return float(positive @ below / (positive.sum() * negative.sum()))


def _normal() -> tuple[np.ndarray, np.ndarray]:
    """Points and weights that integrate over N(0, 1)."""
    points, weights = np.polynomial.hermite_e.hermegauss(80)
    return points, weights / weights.sum()


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-logits))
