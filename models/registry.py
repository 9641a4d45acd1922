"""The models that a config can name."""

from collections.abc import Callable, Mapping

import keras

from models.dcn import dcn
from models.resnet import resnet
from models.transformer import transformer
from models.wide_deep import wide_deep

MODELS: Mapping[str, Callable[..., keras.Model]] = {
    "dcn": dcn,
    "resnet": resnet,
    "transformer": transformer,
    "wide_deep": wide_deep,
}
