"""A config is parsed into sections, or refused by the name of its key."""

import dataclasses
import re

import pytest

from pipeline.base.errors import InputError
from pipeline.configs import adult_wide_deep, base, mnist_resnet
from pipeline.training.experiment import config as config_lib
from pipeline.training.experiment.config import MixedDataset, RateScaling
from tests.shared.parsed import parsed

NAN, INF = float("nan"), float("inf")


def test_each_section_has_its_values():
    config = base.get_config()
    config.model = {"name": "wide_deep", "hidden": (8,)}
    config.seed, config.train.split, config.mixture = 7, "train[:90%]", (("data/old", "train", 0.5),)
    config.train.class_weights, config.optimizer.name = (1, 2.5), "sgd"
    made = parsed(config)
    assert (made.model.name, made.model.options, made.model.seed) == ("wide_deep", {"hidden": (8,)}, 7)
    assert (made.data.split, made.data.seed, made.data.image_size) == ("train[:90%]", 7, None)
    assert made.data.mixture == (MixedDataset(directory="data/old", split="train", weight=0.5),)
    assert (made.loss.class_weights, made.optimizer.name) == ((1, 2.5), "sgd")
    assert made.given == config_lib.as_json(config.to_dict())


@pytest.mark.parametrize("module", [base, adult_wide_deep, mnist_resnet])
def test_what_run_json_holds_is_the_same_experiment(module):
    made = parsed(module.get_config())
    assert config_lib.parse(made.given) == made


def test_sections_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        parsed(base.get_config()).train.steps = 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("optimizer.learning_rate", value) for value in (-1.0, NAN, INF)),
        *(("optimizer.weight_decay", value) for value in (-1e-9, NAN, INF)),
        *(("optimizer.momentum", value) for value in (-0.1, 1.0, NAN)),
        *(("optimizer.warmup_part", value) for value in (-0.1, 1.0, 5.0, NAN)),
        *(("optimizer.clip_norm", value) for value in (-1.0, NAN)),
        *(("optimizer.ema", value) for value in (-0.1, 1.0, NAN)),
        ("optimizer.warmup_steps", -1),
        *(("seed", value) for value in (-1, 2**32)),
        *(("global_batch", value) for value in (-1, 0, 2**31, 10**20)),
        *(("train.weight", value) for value in (-1.0, 0.0, NAN)),
        *(("train.steps", value) for value in (-1, 2**31)),
        *(("train.epochs", value) for value in (0.0, NAN, INF)),
        *(("train.label_smoothing", value) for value in (-0.1, 1.0, NAN)),
        *(
            ("image_size", value)
            for value in ((224,), (224, 0), (-1, 5), (1, 2, 3), (99_999, 1), ("a", "b"), (2.5, 3))
        ),
        ("train.steps_per_loop", 0),
        ("train.log_every_steps", -1),
        ("train.checkpoint_every_steps", 0),
        ("train.checkpoints_kept", 0),
        ("train.bad_steps_allowed", -1),
        ("evaluation.every_epochs", 0),
        ("evaluation.global_batch", 0),
    ],
)
def test_a_number_out_of_its_range_is_named(key: str, value: float):
    config = base.get_config()
    config.update_from_flattened_dict({key: value})
    with pytest.raises(InputError, match=rf"^--config.{key}: received {re.escape(str(value))}; "):
        parsed(config)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("train.frozen", (1,), "patterns of variables"),
        ("init.without", ("logits/*", None), "patterns of variables"),
        *(
            ("optimizer.rates", rates, "a pattern of variables and a positive number for each")
            for rates in (
                ("head/*", 10.0),
                (("head/*",),),
                (("head/*", 0.0),),
                (("head/*", True),),
                ((1, 1.0),),
            )
        ),
    ],
)
def test_what_is_no_pattern_of_variables_is_named(key: str, value: tuple, expected: str):
    config = base.get_config()
    config.update_from_flattened_dict({key: value})
    with pytest.raises(InputError, match=rf"^--config.{key}: received \(.*\); expected {expected}"):
        parsed(config)


def test_epochs_do_not_count_beside_steps():
    config = base.get_config()
    config.train.epochs, config.train.steps = 0.0, 7
    assert parsed(config).train.steps == 7


def test_what_is_no_policy_is_refused():
    config = base.get_config()
    config.train.on_bad_step = "skp"
    with pytest.raises(InputError, match=r"on_bad_step: received 'skp'; .*Did you mean 'skip'\?"):
        parsed(config)


def test_an_unknown_key_is_named_with_the_one_that_is_meant():
    config = base.get_config()
    config.train.epoch = 3.0
    with pytest.raises(InputError, match=r"--config.train.epoch: .* Did you mean 'epochs'\?"):
        parsed(config)


def test_a_key_that_is_missing_is_named():
    config = base.get_config()
    del config.optimizer.ema
    with pytest.raises(InputError, match=r"--config.optimizer.ema: received nothing; expected a value"):
        parsed(config)


@pytest.mark.parametrize(
    "mixture",
    [
        (("data/1.0.0", "train"),),
        ("data/1.0.0", "train", 1.0),
        (("data/1.0.0", "train", "1"),),
        (("data/1.0.0", "train", None),),
        (("data/1.0.0", "train", True),),
        ((5, "train", 1.0),),
        (("data/1.0.0", 5, 1.0),),
        (("", "train", 1.0),),
    ],
)
def test_a_mixture_of_anything_else_is_refused(mixture: tuple):
    config = base.get_config()
    config.mixture = mixture
    with pytest.raises(
        InputError, match=r"^--config.mixture: received .*; expected a directory, a split and a"
    ):
        parsed(config)


def test_a_run_that_cannot_be_counted_is_refused():
    config_lib.check_length(2**31 - 1)
    with pytest.raises(InputError, match=r"train.epochs: received 1\.00e\+400 steps; expected at most"):
        config_lib.check_length(10**400)


@pytest.mark.parametrize(
    ("how", "batch", "rate"), [("none", 512, 0.001), ("linear", 512, 0.004), ("linear", 32, 0.00025)]
)
def test_the_rate_of_a_batch(how: str, batch: int, rate: float):
    config = base.get_config()
    config.global_batch = batch
    found = RateScaling(how=how, file_batch=128).scaled(config.to_dict())
    assert found["optimizer"]["learning_rate"] == pytest.approx(rate)


def test_the_rate_is_told():
    config = base.get_config()
    config.global_batch = 1_024
    assert RateScaling(how="linear", file_batch=128).summary(config.to_dict()) == (
        "0.008, which is 0.001 × 1,024 / 128, the global batch of the config file (--lr_scaling=linear)"
    )
    assert RateScaling().summary(config.to_dict()) == "0.001 for any global batch (--lr_scaling=none)"
