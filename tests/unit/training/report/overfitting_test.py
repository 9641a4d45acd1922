"""When the report says that validation got worse while training got better."""

import pytest

from pipeline.training.report.findings import overfitting


def history(trained: list[float], validated: list[float | None]) -> tuple[dict, ...]:
    return tuple(
        {"step": 100 * number, "loss": loss}
        | ({} if held_out is None else {"validation": {"loss": held_out}})
        for number, (loss, held_out) in enumerate(zip(trained, validated, strict=True), 1)
    )


def test_names_the_best_step_and_all_four_losses():
    lines = history([0.9, 0.7, 0.5, 0.3], [0.8, 0.6, 0.7, 0.9])
    (finding,) = overfitting(lines)
    assert finding.text == (
        "Validation got worse from step 200 on (loss 0.6, then 0.9) while training got better "
        "(0.7, then 0.3)."
    )
    assert "keep_best=val_loss" in finding.advice


@pytest.mark.parametrize(
    ("trained", "validated"),
    [
        ([0.9, 0.7, 0.5, 0.3], [0.8, 0.6, 0.5, 0.4]),  # better to the end
        ([0.9, 0.7, 0.5, 0.3], [0.8, 0.6, 0.5, 0.9]),  # one evaluation alone
        ([0.9, 0.7, 0.5, 0.3], [0.8, 0.600, 0.603, 0.605]),  # within 1%
        ([0.9, 0.7, 0.8, 0.9], [0.8, 0.6, 0.7, 0.9]),  # training got worse, too
        ([0.9, 0.7, 0.5, 0.3], [0.8, 0.6, float("nan"), 0.9]),
        ([0.9, 0.7, 0.5, 0.3], [None, None, None, None]),
        ([], []),
    ],
)
def test_says_nothing_where_it_did_not_happen(trained: list[float], validated: list):
    assert list(overfitting(history(trained, validated))) == []


def test_the_training_loss_is_the_last_before_an_evaluation():
    lines = history([0.9, 0.7, 0.6, 0.5, 0.4, 0.3], [None, 0.6, None, 0.7, None, 0.9])
    (finding,) = overfitting(lines)
    assert "(0.7, then 0.3)" in finding.text
