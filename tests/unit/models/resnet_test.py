"""The networks' shapes and numbers of parameters, and that the small one computes the same in training."""

import math

import keras
import numpy as np
import pytest

from models.resnet import resnet, resnet18, resnet50

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


# The published networks.

PHOTOGRAPHS = {"image_shape": (224, 224, 3), "image_rescaling": (1 / 127.5, -1.0), "outputs": 1000}


def trained_numbers(model: keras.Model) -> int:
    return sum(math.prod(each.shape) for each in model.trainable_variables)


def test_resnet18_has_the_parameters_of_the_paper():
    """Counted from table 1 of He et al. 2015, and two numbers a channel of each normalization."""

    def stage(inputs: int, width: int) -> int:
        convolutions = 9 * inputs * width + 3 * 9 * width * width
        return convolutions + 4 * 2 * width + (inputs * width + 2 * width if inputs != width else 0)

    stages = sum(stage(*each) for each in ((64, 64), (64, 128), (128, 256), (256, 512)))
    counted = 7 * 7 * 3 * 64 + 2 * 64 + stages + 512 * 1000 + 1000
    assert trained_numbers(resnet18(**PHOTOGRAPHS)) == counted == 11_689_512  # torchvision's resnet18, too


@pytest.mark.slow
def test_resnet50_has_the_parameters_of_keras():
    theirs = keras.applications.ResNet50(weights=None)
    convolutions = [each for each in theirs.layers if isinstance(each, keras.layers.Conv2D)]
    biases = sum(each.filters for each in convolutions)  # which a normalization takes away again
    assert trained_numbers(resnet50(**PHOTOGRAPHS)) == trained_numbers(theirs) - biases == 25_557_032


@pytest.mark.parametrize(("network", "channels"), [(resnet18, 16), (resnet50, 64)])
@pytest.mark.parametrize(("side", "stem_stride", "last"), [(32, 0, 4), (96, 0, 3), (32, 2, 2), (32, 4, 1)])
def test_stages_halve_the_image(network, channels, side, stem_stride, last):
    if network is resnet50 and stem_stride:
        pytest.skip("the stem is that of resnet18")
    model = network(
        image_shape=(side, side, 1), image_rescaling=None, outputs=2, width=2, stem_stride=stem_stride
    )
    assert model.layers[-3].input.shape == (None, last, last, channels)


def of_floats(**options) -> keras.Model:
    sizes = {"image_rescaling": None, "image_dtype": "float32", "width": 2, "outputs": 2} | options
    return resnet18(**sizes)


def test_a_block_begins_as_its_shortcut():
    """The first two blocks of an untrained network, whose widths are equal, give what they get."""
    model = of_floats(image_shape=(8, 8, 1))
    first, second, *_ = [each for each in model.layers if isinstance(each, keras.layers.Add)]
    stage = keras.Model(model.inputs, [first.input[0], second.output])
    begins, ends = stage({"image": IMAGES["image"].astype("float32") / 255})
    assert np.any(begins)
    np.testing.assert_array_equal(ends, begins)


def test_a_strided_convolution_is_padded_as_published():
    """Zeros stand before an image of even size, too: its first window has 2x2 pixels, its last one 3x3."""
    model = of_floats(image_shape=(8, 8, 1), stem_stride=2)
    stem = next(each for each in model.layers if isinstance(each, keras.layers.Conv2D))
    stem.kernel.assign(np.ones(stem.kernel.shape))
    sums = keras.Model(model.inputs, stem.output)({"image": np.ones((1, 8, 8, 1), "float32")})
    expected = [[4, 6, 6, 6], [6, 9, 9, 9], [6, 9, 9, 9], [6, 9, 9, 9]]
    np.testing.assert_array_equal(sums[0, :, :, 0], expected)
