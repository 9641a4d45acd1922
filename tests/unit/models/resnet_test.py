"""The network's shapes, and that it computes the same in training and serving."""

import keras
import numpy as np
import pytest

from models.resnet import resnet

IMAGES = {"image": np.random.default_rng(0).integers(0, 256, (2, 8, 8, 1)).astype("uint8")}


def small(**options) -> keras.Model:
    sizes = {"image_shape": (8, 8, 1), "image_rescaling": (1 / 127.5, -1.0)} | options
    return resnet(outputs=3, widths=(4, 6), blocks_per_stage=1, **sizes)


def test_serving_computes_what_training_does():
    model = small()
    np.testing.assert_array_equal(model(IMAGES, training=True), model(IMAGES, training=False))


@pytest.mark.parametrize(
    ("side", "stem_stride", "last"), [(32, 0, 16), (96, 0, 12), (32, 1, 16), (32, 2, 8), (32, 4, 4)]
)
def test_stem_shrinks_large_images(side, stem_stride, last):
    model = resnet(
        image_shape=(side, side, 3),
        image_rescaling=None,
        outputs=2,
        widths=(4, 4),
        blocks_per_stage=1,
        stem_stride=stem_stride,
    )
    assert model.layers[-3].input.shape == (None, last, last, 4)


def test_other_strides_are_refused():
    with pytest.raises(ValueError, match="must be 0, 1, 2 or 4, and received 3"):
        small(stem_stride=3)


def test_inputs_that_are_not_its_own_are_left_alone():
    assert small()(IMAGES | {"numeric": np.zeros((2, 5), "float32")}).shape == (2, 3)


def test_pixels_normalised_elsewhere_are_not_rescaled_again():
    on_device, on_host = small(), small(image_dtype="float32", image_rescaling=None)
    on_host.set_weights(on_device.get_weights())
    pixels = IMAGES["image"].astype("float32") / 127.5 - 1.0
    np.testing.assert_allclose(on_host({"image": pixels}), on_device(IMAGES), atol=1e-5)


def test_what_the_blocks_do_not_change_reaches_the_logits():
    model = small()
    _stem, *convolutions = [layer for layer in model.layers if isinstance(layer, keras.layers.Conv2D)]
    for layer in convolutions:
        if layer.kernel_size == (3, 3):
            layer.kernel.assign(np.zeros(layer.kernel.shape))
    first, second = np.asarray(model(IMAGES))
    assert np.any(np.abs(first - second) > 1e-4)
