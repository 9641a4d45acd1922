"""The comparison with torchvision finds what differs, and leaves no operation out."""

import numpy as np

from pipeline.data.images import rand_augment
from tests.augmentation import cases, comparison

WANTED = {"hue/0.1/noise": np.full((2, 2, 3), 7, np.uint8), "drawn/hue": np.zeros(3)}


def test_one_level_passes_and_two_do_not(capsys):
    for levels, failed in ((1, 0), (-1, 0), (2, 1), (-2, 1)):
        found = {"hue/0.1/noise": WANTED["hue/0.1/noise"] + np.uint8(levels % 256)}
        assert comparison.compare_pixels(found, WANTED) == failed
    assert "0.1/noise" in capsys.readouterr().out


def test_another_distribution_is_found(capsys, monkeypatch):
    monkeypatch.setattr(comparison, "p_values", lambda found, wanted: [("a", "t", 0.2), ("b", "t", 1e-5)])
    assert comparison.compare_draws({}, {}) == 1
    assert "0.200  t" in capsys.readouterr().out


def test_every_operation_of_rand_augment_is_compared():
    assert [operation.__name__ for operation in rand_augment.OPERATIONS] == list(cases.RAND_AUGMENT)
