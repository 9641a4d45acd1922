"""The figures of the gate's benchmark: their truths beside many rows, and a wrong gate is noticed."""

import dataclasses
import itertools

import numpy as np
import pytest
from sklearn import metrics

from benchmarks import gate
from benchmarks.gate import Figure
from benchmarks.release import holdouts
from benchmarks.release.holdouts import World
from pipeline.gate.verdict import PROMOTE, evaluate


def world(cluster: int = 1) -> World:
    return World(rng=np.random.default_rng(0), cluster=cluster)


@pytest.mark.parametrize("cluster", [1, 20])
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_what_is_true_is_what_many_rows_show(noise, cluster):
    scored = world(cluster).holdout(400_000, challenger=noise)
    labels, predictions = scored.labels, scored.predictions["challenger"]
    assert holdouts.log_loss(noise) == pytest.approx(metrics.log_loss(labels, predictions), abs=3e-3)
    assert holdouts.auc(noise) == pytest.approx(metrics.roc_auc_score(labels, predictions), abs=3e-3)


def test_rows_of_a_cluster_share_half_of_the_noise():
    noise = world(cluster=2)._noise(np.arange(200_000) // 2).reshape(-1, 2)
    assert np.corrcoef(noise.T)[0, 1] == pytest.approx(0.5, abs=0.01)
    assert noise.std() == pytest.approx(1, abs=0.01)


def test_a_bias_costs_what_its_twin_does():
    mean = holdouts.mean_logit(0.1)
    scored = World(rng=np.random.default_rng(0), mean=mean).holdout(
        400_000, bias={"challenger": -0.2, "champion": holdouts.equal_bias(-0.2, mean=mean)}, **gate.NONE
    )
    assert scored.labels.mean() == pytest.approx(0.1, abs=2e-3)
    low, high = (metrics.log_loss(scored.labels, scored.predictions[model]) for model in gate.NONE)
    assert low == pytest.approx(holdouts.log_loss(0.0, bias=-0.2, mean=mean), abs=3e-3)
    assert low == pytest.approx(high, abs=1e-3)


def test_one_cluster_may_have_most_rows():
    clusters = (
        World(rng=np.random.default_rng(0), cluster=20, largest=0.8).holdout(1_000, challenger=1.0).clusters
    )
    assert np.bincount(clusters).tolist() == [800, *[20] * 10]


def test_a_figure_is_beside_its_bound():
    met, missed = Figure(name="held", value=95.2, least=93, most=97), Figure(name="lost", value=6.0, most=5)
    by_chance = [Figure(name="", value=value, most=2.5, trials=900).is_met for value in (3.8, 3.9)]
    assert by_chance == [True, False]  # 2.5 + 2.6 · 0.52
    assert str(met).split() == ["held", "95.2", "%", "≥", "93,", "≤", "97", "met"]
    assert str(missed).split() == ["lost", "6", "%", "≤", "5", "MISSED"]


def test_a_gate_that_promotes_by_chance_misses_its_bound(monkeypatch, capsys):
    def by_the_value_alone(scored, rules):
        verdict = evaluate(scored, rules)
        is_better = verdict.metrics[0].differences["champion"].value > 0
        return dataclasses.replace(verdict, decision=PROMOTE if is_better else verdict.decision)

    def first_figure():
        return itertools.islice(gate.equal_models(world(), trials=40, rows=400), 1)

    monkeypatch.setattr(gate, "figures", first_figure)
    assert gate.main([]) == 0
    monkeypatch.setattr(gate, "evaluate", by_the_value_alone)
    assert gate.main([]) == 1
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["met", "MISSED"]


@pytest.mark.slow
def test_every_figure_has_a_name_and_a_bound():
    found = list(gate.figures(part=0.003))
    assert len({figure.name for figure in found}) == len(found) == 57
    assert all(np.isfinite(figure.value) for figure in found)
    assert all(np.isfinite([figure.least, figure.most]).any() for figure in found)
