"""Numbers that a run cannot have are refused by name; those that all configs have will do."""

import pytest

from pipeline.base.errors import InputError
from pipeline.configs import adult_wide_deep, base, mnist_resnet
from pipeline.training.experiment import checks

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("optimizer.learning_rate", value) for value in (-1.0, NAN, INF)),
        *(("optimizer.weight_decay", value) for value in (-1e-9, NAN, INF)),
        *(("optimizer.momentum", value) for value in (-0.1, 1.0, NAN)),
        *(("seed", value) for value in (-1, 2**32)),
        *(("train.weight", value) for value in (-1.0, 0.0, NAN)),
        *(("train.steps", value) for value in (-1, 2**31)),
        ("optimizer.warmup_steps", -1),
        ("evaluation.every_epochs", 0),
        *(("global_batch", value) for value in (-1, 0, 2**31, 10**20)),
    ],
)
def test_a_number_out_of_its_range_is_named(key: str, value: float):
    config = base.get_config()
    config.update_from_flattened_dict({key: value})
    with pytest.raises(InputError, match=f"^--config.{key}: received {value}; expected "):
        checks.check_ranges(config)


@pytest.mark.parametrize("module", [base, adult_wide_deep, mnist_resnet])
def test_our_configs_pass(module):
    checks.check_ranges(module.get_config())


def test_a_key_that_an_earlier_config_lacks_is_not_asked_for():
    config = base.get_config()
    del config.train.weight
    checks.check_ranges(config)


def test_a_run_that_cannot_be_counted_is_refused():
    checks.check_length(2**31 - 1)
    with pytest.raises(InputError, match=r"train.epochs: received 1\.00e\+400 steps; expected at most"):
        checks.check_length(10**400)
