"""Chooses the next token from its logits: the most probable one, or a draw from the more probable ones.

It runs on the host, in float64. So a choice depends on the seed, the prompt's number and the logits alone,
not on the device, or on which prompts share a batch.
"""

import dataclasses
import math

import numpy as np

from pipeline.base.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampling:
    """How tokens are chosen; every restriction holds after the ones before it.

    Attributes:
      temperature: logits are divided by it; 0: the most probable token, without a draw.
      top_k: the draw is from so many of the most probable tokens; 0: from all.
      top_p: and from the fewest of these that have this probability together: Holtzman et al. 2020, "The
        Curious Case of Neural Text Degeneration", section 3.1.
      seed: decides the draws; each prompt has a sequence of its own.

    Raises:
      InputError: a value is out of its range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        _require("temperature", self.temperature, 0 <= self.temperature < math.inf, "0 or a positive number")
        _require("top_k", self.top_k, self.top_k >= 0, "a number of tokens, or 0 for all")
        _require("top_p", self.top_p, 0 < self.top_p <= 1, "a probability above 0, up to 1")
        _require("seed", self.seed, self.seed >= 0, "0 or a positive whole number")

    def draws(self, prompt: int) -> np.random.Generator:
        """The random numbers for the prompt of this number."""
        return np.random.default_rng([self.seed, prompt])

    def choose(self, logits: np.ndarray, draws: np.random.Generator) -> int:
        """Returns a token, 0 … len(logits) - 1; among equal logits the first one.

        Args:
          logits: float [tokens].
        """
        if not self.temperature:
            return int(logits.argmax())
        order, probabilities = self._kept(logits)
        ends = probabilities.cumsum()
        return int(order[np.searchsorted(ends, draws.random() * ends[-1], side="right")])

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """The probability of each token to be chosen, float64 [tokens]."""
        if not self.temperature:
            return np.eye(len(logits))[logits.argmax()]
        order, kept = self._kept(logits)
        found = np.zeros(len(logits))
        found[order] = kept / kept.sum()
        return found

    def _kept(self, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The tokens to draw from, the most probable first, and their probabilities among all."""
        order = np.argsort(-logits, kind="stable")[: self.top_k or None]
        below = logits[order].astype(np.float64) - logits[order[0]]
        with np.errstate(over="ignore"):  # a temperature near 0
            weights = np.exp(below / self.temperature)
        probabilities = weights / weights.sum()
        before = np.concatenate([[0.0], probabilities.cumsum()[:-1]])
        number = int(np.count_nonzero(before < self.top_p))
        return order[:number], probabilities[:number]


def _require(flag: str, value: float, is_right: bool, expected: str) -> None:
    if not is_right:
        raise InputError(f"--{flag}", received=value, expected=expected, action="Correct it.")
