"""A small convolutional network; Penstock fills in all arguments but `width`."""

import keras
from keras import layers


def arrows(*, image_shape, outputs, width=16):
    image = keras.Input(image_shape, dtype="uint8", name="image")
    x = layers.Rescaling(1 / 127.5, offset=-1)(image)
    for channels in (width, 2 * width):
        x = layers.Conv2D(channels, 3, strides=2, padding="same", activation="relu")(x)
    logits = layers.Dense(outputs, dtype="float32", name="logits")(layers.Flatten()(x))
    return keras.Model({"image": image}, logits)
