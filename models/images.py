"""What models of images share: the pixels that they begin with, and the logits that they end with."""

import keras


def pixels(
    image_shape: tuple[int, int, int], *, dtype: str, rescaling: tuple[float, float] | None
) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """Returns the model's input `image`, and its pixels normalised, [batch, *image_shape] both.

    Args:
      rescaling: scale and offset that the pixels still need; None: they are normalised already.
    """
    image = keras.Input(image_shape, dtype=dtype, name="image")
    if not rescaling:
        return image, image
    scale, offset = rescaling
    return image, keras.layers.Rescaling(scale, offset=offset)(image)


def logits(
    features: keras.KerasTensor, outputs: int, *, dropout: float, initializer: object = "glorot_uniform"
) -> keras.KerasTensor:
    """Features [batch, width] → float32 logits [batch, outputs].

    Args:
      dropout: fraction of the features dropped in training.
      initializer: makes the kernel; in a form that Keras takes.
    """
    features = keras.layers.Dropout(dropout)(features)
    # float32 whatever the precision policy: bfloat16 logits would cost accuracy and leak into exports.
    head = keras.layers.Dense(outputs, dtype="float32", kernel_initializer=initializer, name="logits")
    return head(features)
