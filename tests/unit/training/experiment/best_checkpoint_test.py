"""The best checkpoint: by which number, and what cannot be kept."""

import pytest

from pipeline.base.errors import InputError
from pipeline.data.schema.feature_types import Label
from pipeline.training.experiment import checks, restore
from pipeline.training.run import run
from tests.shared.parsed import parsed

BINARY = Label(name="bought", classes=("no", "yes"))
PRICE = Label(name="price", task="regression")


def logged(label: Label, *, is_validated: bool = True, is_weighted: bool = False) -> tuple[str, ...]:
    return checks.logged_names(label, is_validated=is_validated, is_weighted=is_weighted)


@pytest.mark.parametrize(
    ("label", "metric", "higher"),
    [
        (BINARY, "val_loss", False),
        (BINARY, "val_auc", True),
        (BINARY, "accuracy", True),
        (PRICE, "val_rmse", False),
        (PRICE, "val_r2", True),
    ],
)
def test_the_metric_tells_which_way_is_better(label, metric, higher, config):
    checks.check_keep_best(metric, logged(label))
    config.train.keep_best = metric
    assert checks.kept_best(parsed(config), label).is_higher_better is higher


@pytest.mark.parametrize(("metric", "mode"), [("val_loss", "min"), ("val_auc", "max"), ("min:val_x", "min")])
def test_patience_stops_by_the_number_that_chooses_the_best(config, metric, mode):
    named = {"class_name": "TerminateOnNaN"}
    config.callbacks, config.train.keep_best = (named,), metric
    assert [*checks.callbacks_of(parsed(config), BINARY)] == [named]
    config.train.patience = 4
    stopping = {"monitor": metric.removeprefix("min:"), "mode": mode, "patience": 4}
    made = checks.callbacks_of(parsed(config), BINARY)
    assert [*made] == [named, {"class_name": "EarlyStopping", "config": stopping}]


def test_patience_needs_a_number_that_chooses_the_best(config):
    config.train.patience = 4
    with pytest.raises(InputError, match=r"train.patience: received 4; expected 0, since .*keep_best"):
        parsed(config)


def test_where_examples_have_weights_so_has_the_number(config):
    config.train.keep_best = "val_weighted_auc"
    with pytest.raises(InputError, match=r"received 'val_weighted_auc'; expected .* val_loss, val_auc"):
        checks.check_keep_best("val_weighted_auc", logged(BINARY))
    checks.check_keep_best("val_weighted_auc", logged(BINARY, is_weighted=True))
    assert checks.kept_best(parsed(config), BINARY).is_higher_better


@pytest.mark.parametrize(
    ("metric", "lacking", "message"),
    [
        (
            "val_aux",
            None,
            r"keep_best: received 'val_aux'; expected .*val_auc.* Did you mean 'val_auc'",
        ),
        (
            "val_loss",
            checks.why_not_validated("", epochs=1, every_epochs=1),
            r"received 'val_loss', but there is no valid.* or set --config.evaluation.split=val",
        ),
        (
            "val_loss",
            checks.why_not_validated("validation", epochs=2, every_epochs=3),
            r"received 'val_loss', .* every 3 epochs, and the run has 2; .* or set --\S*every_epochs=2\.",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_training(metric, lacking, message):
    with pytest.raises(InputError, match=message):
        checks.check_keep_best(metric, logged(BINARY, is_validated=not lacking), lacking=lacking)


def test_a_metric_that_the_config_names_tells_its_way_or_has_to_be_told(config):
    config.evaluation.metrics = ("ece", "recall@0.3", "keras.metrics:LogCoshError")
    known = checks.logged_names(
        BINARY, is_validated=True, is_weighted=False, more=parsed(config).evaluation.metrics
    )
    assert {"val_ece", "val_recall@0.3", "val_log_cosh_error"} <= set(known)
    for metric, higher in {
        "val_ece": False,
        "val_recall@0.3": True,
        "min:val_log_cosh_error": False,
        "max:val_log_cosh_error": True,
    }.items():
        config.train.keep_best = metric
        checks.check_keep_best(metric, known, more=config.evaluation.metrics)
        kept = checks.kept_best(parsed(config), BINARY)
        assert (kept.metric, kept.is_higher_better) == (metric.rpartition(":")[2], higher)
    with pytest.raises(
        InputError, match="not known whether more is better; expected 'max:val_log_cosh_error'"
    ):
        checks.check_keep_best("val_log_cosh_error", known, more=config.evaluation.metrics)


@pytest.mark.slow
def test_the_best_one_is_kept_and_restored(request_for, tmp_path, config):
    config.train.keep_best, config.train.checkpoints_kept = "val_loss", 1
    config.train.epochs, config.evaluation.every_epochs = 4.0, 3
    metrics = run.train(request_for(tmp_path))
    best = 38  # the end of the third epoch, the only one that is validated
    assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == {"step-00000038", "step-00000050"}
    usual, last = restore.restore_model(tmp_path, checkpoint=""), restore.restore_model(tmp_path)
    assert (usual.step, usual.choice) == (best, f"step {best}, the best by val_loss")
    assert (last.step, last.choice) == (50, "step 50, the last one")
    assert restore.restore_model(tmp_path, checkpoint=str(best)).step == best
    assert metrics["step"] == best  # what is exported is what is evaluated
    with pytest.raises(
        InputError, match=rf"--checkpoint=7: received checkpoints of the steps {best}, 50 in "
    ):
        restore.restore_model(tmp_path, checkpoint="7")
