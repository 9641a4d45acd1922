"""Verdicts on items, groups and tokens, where the truth is known."""

import numpy as np
import pytest
from scipy import special

from pipeline.gate.rules import GateRules
from pipeline.gate.scores import Scored, prepare
from pipeline.gate.verdict import PROMOTE, REJECT, UNDECIDED, evaluate

RULES = GateRules()
ITEMS, LENGTH = 40, 8


def ranked(scores: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """What an export says of the chosen items, as `Scored` has it."""
    own = np.take_along_axis(scores, chosen[:, None], 1)
    better, equal = (scores > own).sum(axis=1), (scores == own).sum(axis=1) - 1
    return np.stack([(own - special.logsumexp(scores, axis=1, keepdims=True))[:, 0], better, equal], axis=1)


def choices(rows: int, *, seed: int = 1, extra: dict | None = None, **noise: float) -> Scored:
    """Models that know the log-odds of each item but for noise; items differ in popularity, too."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(0, 1, (rows, ITEMS)) + np.linspace(0, 2, ITEMS)
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    made = {model: ranked(truth + rng.normal(0, 1, truth.shape) * of, labels) for model, of in noise.items()}
    names = [str(number) for number in range(ITEMS)]
    return Scored(task="retrieval", labels=labels, predictions=made, class_names=names, **(extra or {}))


def visits(rows: int, *, seed: int = 1, relevant: float = 0.3, **noise: float) -> Scored:
    """Models that know how useful the rows of a group are but for noise; some groups have few rows."""
    rng = np.random.default_rng(seed)
    useful = rng.normal(size=(rows, LENGTH))
    labels = np.where(special.ndtr(useful) > 1 - relevant, 1, 0)
    labels[np.arange(LENGTH) >= rng.integers(1, LENGTH + 1, rows)[:, None]] = -1
    made = {model: useful + rng.normal(size=useful.shape) * of for model, of in noise.items()}
    return Scored(task="ranking", labels=labels, predictions=made)


def texts(rows: int, *, seed: int = 1, **noise: float) -> Scored:
    """Models that know the log-odds of each token but for noise; the last rows are padded."""
    rng = np.random.default_rng(seed)
    truth = 2 * rng.normal(size=(rows, LENGTH, 6))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=2)
    labels[rows // 2 :, 4:] = -1

    def logs(of: float) -> np.ndarray:
        found = special.log_softmax(truth + rng.normal(size=truth.shape) * of, axis=2)
        own = np.take_along_axis(found, np.maximum(labels, 0)[..., None], 2)[..., 0]
        return np.stack([own, found.max(axis=2)], axis=2)

    made = {model: logs(of) for model, of in noise.items()}
    return Scored(task="next_token", labels=labels, predictions=made)


@pytest.mark.parametrize("holdout", [choices, visits, texts])
def test_the_better_model_is_promoted_and_the_worse_one_rejected(holdout):
    assert evaluate(holdout(800, challenger=0.2, champion=1.0), RULES).decision == PROMOTE
    assert evaluate(holdout(800, challenger=1.0, champion=0.2), RULES).decision == REJECT


@pytest.mark.parametrize("holdout", [choices, visits, texts])
def test_a_first_model_must_beat_what_knows_no_features(holdout):
    assert evaluate(holdout(800, challenger=0.5), RULES).decision == PROMOTE
    lost = evaluate(holdout(800, challenger=50.0), RULES)
    assert (lost.decision, lost.is_first) in ((REJECT, True), (UNDECIDED, True))


@pytest.mark.parametrize("holdout", [choices, visits, texts])
def test_an_equal_model_is_promoted_rarely(holdout):
    """By chance in 2.5% of all cases: 5 of 200 are expected, and 12 or more come once in 200 times."""
    verdicts = [evaluate(holdout(110, seed=seed, challenger=0.5, champion=0.5), RULES) for seed in range(200)]
    assert sum(verdict.decision == PROMOTE for verdict in verdicts) < 12


def test_popularity_is_that_of_training_or_of_the_other_rows():
    scored = choices(500, challenger=0.5)
    counts = np.bincount(scored.labels, minlength=ITEMS)
    shares = (counts + 1) / (counts + 1).sum()
    told = choices(500, challenger=0.5, extra={"prior": shares})
    known = np.broadcast_to(np.log(shares), (500, ITEMS))
    np.testing.assert_allclose(prepare(told).predictions["prior"], ranked(known, told.labels))
    others = np.array([counts - (np.arange(ITEMS) == label) for label in scored.labels])
    found = ranked(np.log(others + 1), scored.labels)
    np.testing.assert_allclose(prepare(scored).predictions["prior"], found)


def test_popularity_does_not_know_what_was_chosen():
    """Each of 2,000 rows has an item of its own, of 10,000: a model of even odds is no worse."""
    labels = np.random.default_rng(1).permutation(10_000)[:2_000]
    scored = Scored(
        task="retrieval",
        labels=labels,
        predictions={"challenger": np.array([[-np.log(10_000), 0, 9_999]] * 2_000)},
        class_names=[str(number) for number in range(10_000)],
        content=np.arange(2_000),
    )
    assert prepare(scored).predictions["prior"][:, 0].max() < -np.log(10_000)


def test_tokens_are_predicted_by_how_often_others_are_the_same():
    scored = texts(60, challenger=0.5)
    tokens = scored.labels[scored.labels >= 0]
    counts = np.bincount(tokens)
    others = np.array([counts - (np.arange(len(counts)) == token) for token in tokens])
    logs = np.log((others + 1) / (others + 1).sum(axis=1, keepdims=True))
    found = prepare(scored).predictions["prior"][scored.labels >= 0]
    np.testing.assert_allclose(found[:, 0], logs[np.arange(len(tokens)), tokens])
    is_hit = found[:, 0] >= found[:, 1]
    np.testing.assert_array_equal(is_hit, tokens == counts.argmax())


def test_groups_in_which_nothing_is_relevant_decide_nothing():
    """As where nobody has been seen to choose yet: all models are worth the same there, for certain."""
    scored = visits(800, relevant=0.0, challenger=0.2, champion=0.2)
    verdict = evaluate(scored, GateRules(rule="non_inferiority", margin=0.01))
    assert verdict.decision == UNDECIDED
    assert "rows that differ from the most frequent label: 0; 10 are needed" in verdict.reasons[0]


def test_rows_of_text_weigh_as_many_tokens_as_they_predict():
    ready = prepare(texts(100, challenger=0.5))
    np.testing.assert_allclose(ready.weights, [1.0] * 50 + [0.5] * 50)
