"""The settings of the augmentation: their ranges, and the one place where they stand."""

import dataclasses
import subprocess
import sys

import pytest

from pipeline.base.errors import InputError
from pipeline.configs import base
from pipeline.data.images import augmentation
from pipeline.data.images.augmentation import Augmentation


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("zoom", 2.0, "0 to 0.9"),
        ("hue", 0.7, "0 to 0.5"),
        ("crop_area", (0.5, 0.1), "two rising fractions"),
        ("crop_area", (0.0, 1.0), "two rising fractions"),
        ("crop_aspect", (2.0, 1.0), "two rising numbers"),
        *((name, alpha, "0 to 10") for name in ("mixup", "cutmix") for alpha in (-0.1, 11.0, float("nan"))),
    ],
)
def test_what_is_out_of_range_is_refused(field, value, expected):
    with pytest.raises(
        InputError, match=rf"augmentation '{field}'.*{expected}.*--config.augmentation.{field}"
    ):
        Augmentation(**{field: value})


def test_the_config_has_every_setting_with_its_default():
    assert Augmentation(**base.get_config().augmentation) == Augmentation()
    assert set(base.get_config().augmentation) == set(augmentation.meanings())


def test_every_number_but_a_pair_or_a_switch_has_a_limit():
    limited = {f.name for f in dataclasses.fields(Augmentation) if f.metadata["limit"] is not None}
    assert set(augmentation.meanings()) - limited == {"crop_area", "crop_aspect", "flip"}


def test_what_is_changed_is_named_and_nothing_where_no_image_is():
    assert Augmentation(shift=0.1, flip=True).changed == {"flip": True, "shift": 0.1}
    assert Augmentation(crop_aspect=(1.0, 1.0)).changed == {}


@pytest.mark.parametrize(
    "settings",
    [{"flip": True}, {"crop_area": [0.5, 1.0]}, {"hue": 0.1}, {"rand_augment": 1}, {"cutmix": 1.0}],
)
def test_a_run_is_bound_to_the_version_of_what_changes_its_images(settings):
    assert Augmentation(**settings).version == augmentation.VERSION == 1


def test_a_run_whose_images_stay_is_bound_to_no_version():
    as_json = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in base.get_config().augmentation.items()
    }
    assert Augmentation(**as_json).version == 0
    assert Augmentation(crop_aspect=(0.5, 2.0), rand_augment_magnitude=3.0).version == 0


def test_a_config_is_read_without_tensorflow():
    read = "import sys, pipeline.configs.base as b; b.get_config(); sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", read], check=True)
