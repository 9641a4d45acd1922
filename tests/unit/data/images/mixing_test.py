"""Mixed pairs, beside NumPy's and beside the distributions of the papers."""

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.images.augmentation import Augmentation
from pipeline.data.images.training_image import mixed_pair

IMAGES = np.random.default_rng(0).integers(0, 256, (2, 12, 9, 3), np.uint8)
IMAGES[1] = np.where(IMAGES[1] == IMAGES[0], IMAGES[1] ^ 1, IMAGES[1])  # no pixel is the same in both
PAIRS = 2_000


def mixed(first: int = 0, *, seed: int = 0, images: np.ndarray = IMAGES, **alpha: float) -> tuple:
    pixels, share = mixed_pair(
        tf.constant(images), tf.constant(first, tf.int64), augmentation=Augmentation(**alpha), seed=seed
    )
    return pixels.numpy(), share.numpy()


def shares(*, seed: int = 0, **alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Of many pairs: shares float32 [PAIRS], and whether all pixels of a pair come from one of both."""

    @tf.function(autograph=False)
    def of_all(firsts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        def one(first: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            black_and_white = tf.constant(
                np.stack([np.zeros((64, 64, 1)), np.full((64, 64, 1), 255)]), tf.uint8
            )
            pixels, share = mixed_pair(black_and_white, first, augmentation=Augmentation(**alpha), seed=seed)
            return share, tf.reduce_all((pixels == 0) | (pixels == 255))

        return tf.map_fn(one, firsts, fn_output_signature=(tf.float32, tf.bool))

    found, whole = of_all(tf.range(0, 2 * PAIRS, 2, tf.int64))
    return found.numpy(), whole.numpy()


@pytest.mark.parametrize("alpha", [0.2, 1.0, 4.0])
def test_shares_of_mixup_are_beta_distributed(alpha):
    found, _ = shares(mixup=alpha)
    assert scipy.stats.kstest(found, scipy.stats.beta(alpha, alpha).cdf).pvalue > 0.01
    assert np.abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 0.06


def test_mixup_is_a_mean_by_the_share():
    pixels, share = mixed(6, mixup=1.0)
    assert 0.1 < share < 0.9
    own, other = IMAGES.astype(np.float64), IMAGES[::-1].astype(np.float64)
    np.testing.assert_allclose(pixels, share * own + (1 - share) * other, rtol=0, atol=0.501)


def test_cutmix_puts_one_box_into_both_and_counts_its_pixels():
    drawn = 0
    for first in range(0, 80, 2):
        pixels, share = mixed(first, cutmix=1.0)
        is_other = (pixels == IMAGES[::-1]).all(axis=-1)
        np.testing.assert_array_equal(is_other, (pixels != IMAGES).any(axis=-1))  # a pixel is of one of both
        np.testing.assert_array_equal(is_other[0], is_other[1])
        rows, columns = is_other[0].any(axis=1), is_other[0].any(axis=0)
        np.testing.assert_array_equal(is_other[0], rows[:, None] & columns[None, :])
        for side in (rows, columns):
            assert np.count_nonzero(np.diff(np.r_[0, side, 0])) <= 2  # one run of pixels
        assert share == pytest.approx(1 - is_other[0].mean(), abs=1e-6)
        drawn += is_other.any()
    assert drawn > 30


def test_boxes_are_as_large_as_in_the_paper():
    """Drawn otherwise: its code, with NumPy's random numbers."""
    draw, kept = np.random.default_rng(1), []
    for _ in range(PAIRS):
        side = int(np.sqrt(1 - draw.beta(1, 1)) * 64)
        middle = draw.integers(0, 64, 2)
        low, high = np.clip(middle - side // 2, 0, 64), np.clip(middle + side // 2, 0, 64)
        kept.append(1 - np.prod(high - low) / 64**2)
    found, _ = shares(cutmix=1.0)
    assert scipy.stats.ks_2samp(found, kept).pvalue > 0.01


def test_with_both_a_pair_has_one_or_the_other_half_of_the_time():
    found, is_cut = shares(mixup=0.7, cutmix=1.0)
    assert scipy.stats.binomtest(int(is_cut.sum()), PAIRS).pvalue > 0.01
    assert scipy.stats.kstest(found[~is_cut], scipy.stats.beta(0.7, 0.7).cdf).pvalue > 0.01


def test_what_comes_of_a_pair_depends_on_seed_and_position_alone():
    pixels, share = mixed(6, mixup=1.0)
    again, same = mixed(6, mixup=1.0)
    assert share == same
    np.testing.assert_array_equal(pixels, again)
    assert len({share, mixed(8, mixup=1.0)[1], mixed(6, seed=1, mixup=1.0)[1]}) == 3


@pytest.mark.parametrize("name", ["mixup", "cutmix"])
@pytest.mark.parametrize("alpha", [-0.1, 11.0, float("nan")])
def test_an_alpha_out_of_range_is_refused(name, alpha):
    with pytest.raises(InputError, match=rf"augmentation '{name}'.*expected 0 to 10"):
        Augmentation(**{name: alpha})


@pytest.mark.parametrize("alpha", [5e-324, 1e-3, 10.0])
def test_shares_are_sound_at_the_ends_of_the_range(alpha):
    found, _ = shares(mixup=alpha)
    assert ((found >= 0) & (found <= 1)).all()
    assert abs(found.mean() - 0.5) < 0.05
