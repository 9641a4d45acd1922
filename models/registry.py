"""The models that a config can name."""

from collections.abc import Callable, Mapping

import keras

from models.bag_of_ngrams import bag_of_ngrams
from models.dcn import dcn
from models.resnet import resnet, resnet18, resnet50
from models.sequence_recommender import sequence_recommender
from models.tabular import tabular
from models.transformer import transformer
from models.two_tower import two_tower
from models.vit import vit
from models.wide_deep import wide_deep

MODELS: Mapping[str, Callable[..., keras.Model]] = {
    "bag_of_ngrams": bag_of_ngrams,
    "dcn": dcn,
    "resnet": resnet,
    "resnet18": resnet18,
    "resnet50": resnet50,
    "sequence_recommender": sequence_recommender,
    "tabular": tabular,
    "transformer": transformer,
    "two_tower": two_tower,
    "vit": vit,
    "wide_deep": wide_deep,
}
