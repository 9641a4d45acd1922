"""A checkpoint goes on in its own run only."""

import dataclasses

import pytest

from pipeline.base.errors import InputError
from pipeline.training.state import checkpoints
from tests.unit.training.state.run_record_test import RECORD

NOW = checkpoints.identity_of_run(RECORD, schema="s")
AUGMENTED = checkpoints.identity_of_run(dataclasses.replace(RECORD, augmentation=1), schema="s")


@pytest.mark.parametrize("now", [NOW, AUGMENTED])
def test_a_checkpoint_of_the_same_run_goes_on(now):
    checkpoints.require_same_run(dict(now), now, checkpoint="7")


def test_a_checkpoint_of_another_run_does_not():
    with pytest.raises(InputError, match="checkpoint 7, augmentation: received 0; expected 1, as in the run"):
        checkpoints.require_same_run(NOW, AUGMENTED, checkpoint="7")


def test_a_setting_is_named_before_the_version_that_comes_of_it():
    config = AUGMENTED["config"]
    saved = AUGMENTED | {"config": config | {"augmentation": config["augmentation"] | {"flip": True}}}
    with pytest.raises(InputError, match=r"checkpoint 7, augmentation\.flip: received True"):
        checkpoints.require_same_run(saved, NOW, checkpoint="7")
