"""The models that a config can name."""

from collections.abc import Callable, Mapping

import keras

from models.resnet import resnet
from models.tabular import tabular
from models.transformer import transformer
from models.wide_deep import wide_deep

MODELS: Mapping[str, Callable[..., keras.Model]] = {
    "resnet": resnet,
    "tabular": tabular,
    "transformer": transformer,
    "wide_deep": wide_deep,
}
