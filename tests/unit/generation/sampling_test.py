"""The choice of a token: probabilities against NumPy's, and the same draws from the same seed."""

import numpy as np
import pytest

from pipeline.base.errors import InputError
from pipeline.generation.sampling import Sampling

LOGITS = np.log(np.array([0.1, 0.4, 0.05, 0.3, 0.15]))


def probabilities(**settings: float) -> list[float]:
    return Sampling(**settings).probabilities(LOGITS).round(6).tolist()


def test_without_restrictions_they_are_the_models():
    assert probabilities() == [0.1, 0.4, 0.05, 0.3, 0.15]


def test_a_temperature_divides_the_logits():
    squares = np.exp(LOGITS) ** 2
    assert probabilities(temperature=0.5) == (squares / squares.sum()).round(6).tolist()
    assert probabilities(temperature=0.0) == [0, 1, 0, 0, 0]
    assert probabilities(temperature=1e-310) == [0, 1, 0, 0, 0], "logits divided by it are infinite"


def test_top_k_keeps_the_most_probable_ones():
    assert probabilities(top_k=2) == [0, round(4 / 7, 6), 0, round(3 / 7, 6), 0]


def test_top_p_keeps_the_fewest_that_have_this_probability_together():
    assert probabilities(top_p=0.69) == probabilities(top_k=2)  # 0.4 + 0.3
    assert probabilities(top_p=0.71) == probabilities(top_k=3)
    assert probabilities(top_p=1e-9) == [0, 1, 0, 0, 0]
    # After top_k: of two tokens the first has 4/7.
    assert probabilities(top_k=2, top_p=0.57) == [0, 1, 0, 0, 0]


def test_draws_have_the_probabilities():
    sampling = Sampling(top_k=3, seed=7)
    draws = sampling.draws(0)
    counts = np.bincount([sampling.choose(LOGITS, draws) for _ in range(4_000)], minlength=5)
    np.testing.assert_allclose(counts / 4_000, sampling.probabilities(LOGITS), atol=0.03)


def test_each_prompt_has_draws_of_its_own_from_one_seed():
    one, same, other, seed = (
        Sampling(seed=seed).draws(prompt).random(3).tolist()
        for seed, prompt in ((1, 0), (1, 0), (1, 1), (2, 0))
    )
    assert one == same
    assert len({tuple(each) for each in (one, other, seed)}) == 3


@pytest.mark.parametrize(
    ("setting", "value"),
    [("temperature", -1.0), ("temperature", float("nan")), ("top_k", -1), ("top_p", 0.0), ("top_p", 1.1)],
)
def test_values_out_of_range_are_refused(setting, value):
    with pytest.raises(InputError, match=f"--{setting}: received {value}"):
        Sampling(**{setting: value})
