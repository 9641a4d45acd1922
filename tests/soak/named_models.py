"""The models of `python -m tests.soak.models`: 15 of keras.applications, 20 of keras_hub, 5 of own files.

The arguments make small what is large by default; nothing of the models is changed.
"""

import dataclasses
from collections.abc import Mapping

PHOTOS, TEXTS, TABLE, BOTH = "photos", "texts", "table", "both"  # the datasets


@dataclasses.dataclass(frozen=True, kw_only=True)
class NamedModel:
    """What `--config.model` says.

    Attributes:
      dataset: what it is trained on.
      image_side: height and width of its images; 0: those of the dataset.
    """

    name: str
    arguments: Mapping[str, object] = dataclasses.field(default_factory=dict)
    dataset: str = PHOTOS
    image_side: int = 0


def _application(name: str, image_side: int = 0, **arguments: object) -> NamedModel:
    return NamedModel(name=f"keras.applications:{name}", arguments=arguments, image_side=image_side)


def _of_photos(name: str, **arguments: object) -> NamedModel:
    return NamedModel(name=f"keras_hub:{name}Backbone", arguments=arguments)


def _of_texts(name: str, **arguments: object) -> NamedModel:
    small = {"num_layers": 1, "hidden_dim": 16, "intermediate_dim": 32}
    return NamedModel(name=f"keras_hub:{name}Backbone", arguments=small | arguments, dataset=TEXTS)


_HEADS = {"num_heads": 2}
_QUERIES = {"num_query_heads": 2, "num_key_value_heads": 1}

NAMED_MODELS = (
    _application("MobileNet", alpha=0.25),
    _application("MobileNetV2", alpha=0.35),
    _application("MobileNetV3Small", alpha=0.75, minimalistic=True),
    _application("MobileNetV3Large", alpha=0.75, minimalistic=True),
    _application("EfficientNetB0"),
    _application("EfficientNetV2B0"),
    _application("ResNet50"),
    _application("ResNet50V2"),
    _application("VGG16"),
    _application("VGG19"),
    _application("DenseNet121"),
    _application("NASNetMobile"),
    _application("ConvNeXtTiny"),
    _application("Xception", image_side=71),
    _application("InceptionV3", image_side=75),
    _of_photos("ViT", patch_size=8, num_layers=1, num_heads=2, hidden_dim=16, mlp_dim=32),
    _of_photos("DeiT", patch_size=8, num_layers=1, num_heads=2, hidden_dim=16, intermediate_dim=32),
    _of_photos(
        "ResNet",
        input_conv_filters=(64,),
        input_conv_kernel_sizes=(3,),
        stackwise_num_filters=(64, 64),
        stackwise_num_blocks=(1, 1),
        stackwise_num_strides=(1, 2),
        block_type="basic_block",
    ),
    _of_photos("DenseNet", stackwise_num_repeats=(1, 1), growth_rate=4),
    _of_photos("VGG", stackwise_num_repeats=(1, 1), stackwise_num_filters=(4, 8)),
    _of_photos(
        "MiT",
        layerwise_depths=(1, 1),
        num_layers=2,
        layerwise_num_heads=(1, 2),
        layerwise_sr_ratios=(2, 1),
        max_drop_path_rate=0.1,
        layerwise_patch_sizes=(7, 3),
        layerwise_strides=(4, 2),
        hidden_dims=(8, 16),
    ),
    _of_photos("SwinTransformer", embed_dim=8, depths=(1, 1), num_heads=(1, 2), window_size=4, patch_size=2),
    _of_photos(
        "CSPNet",
        stem_filters=4,
        stem_kernel_size=3,
        stem_strides=1,
        stackwise_depth=(1, 1),
        stackwise_strides=(1, 2),
        stackwise_num_filters=(8, 8),
        block_type="dark_block",
        stage_type="dark",
    ),
    _of_texts("Bert", **_HEADS),
    _of_texts("DistilBert", **_HEADS),
    _of_texts("Roberta", **_HEADS),
    _of_texts("Albert", **_HEADS, embedding_dim=8),
    _of_texts("Electra", **_HEADS, embedding_dim=8),
    _of_texts("FNet"),
    _of_texts("DebertaV3", **_HEADS, bucket_size=8),
    _of_texts("GPT2", **_HEADS),
    _of_texts("OPT", **_HEADS),
    _of_texts("Llama3", **_QUERIES),
    _of_texts("Mistral", **_QUERIES),
    _of_texts("Gemma", **_QUERIES, head_dim=8),
    NamedModel(name="own_functional:small_network", arguments={"width": 8}),
    NamedModel(name="own_sequential:digits_network"),
    NamedModel(name="own_subclassed:Perceptron", arguments={"width": 8}, dataset=TABLE),
    NamedModel(name="own_two_inputs:photo_and_table", dataset=BOTH),
    NamedModel(name="own_layer:with_gate", dataset=TABLE),
)

# Files as people write them: for Keras alone, with nothing of this project.
OWN_FILES = {
    "own_functional.py": """
import keras

from own_blocks import block


def small_network(input_shape, num_classes, width=16):
    image = keras.Input(input_shape)
    x = block(block(image, width), 2 * width)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, keras.layers.Dense(num_classes, dtype="float32")(x))
""",
    "own_blocks.py": """
import keras


def block(x, width):
    x = keras.layers.Conv2D(width, 3, strides=2, padding="same", use_bias=False)(x)
    return keras.layers.ReLU()(keras.layers.BatchNormalization()(x))
""",
    "own_sequential.py": """
import keras
from keras import layers


def digits_network():
    return keras.Sequential(
        [
            layers.Rescaling(1 / 255),
            layers.Conv2D(8, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.5),
        ]
    )
""",
    "own_subclassed.py": """
import keras


class Perceptron(keras.Model):
    def __init__(self, width=32, **kwargs):
        super().__init__(**kwargs)
        self.hidden = keras.layers.Dense(width, activation="relu")
        self.dropout = keras.layers.Dropout(0.1)

    def call(self, inputs, training=False):
        return self.dropout(self.hidden(inputs["numeric"]), training=training)
""",
    "own_two_inputs.py": """
import keras
from keras import layers


def photo_and_table(outputs):
    photo = keras.Input((32, 32, 3), name="photo")
    age = keras.Input((1,), name="age")
    x = layers.Flatten()(layers.Conv2D(4, 3, strides=4, activation="relu")(photo))
    x = layers.Concatenate()([x, layers.Dense(4)(age)])
    return keras.Model({"photo": photo, "age": age}, layers.Dense(outputs, dtype="float32")(x))
""",
    "own_layer.py": """
import keras


class Gate(keras.layers.Layer):
    def build(self, shape):
        self.gate = self.add_weight(shape=(shape[-1],), initializer="ones", name="gate")

    def call(self, x):
        return x * self.gate


def with_gate(numeric, outputs):
    x = keras.Input((numeric,), name="numeric")
    hidden = Gate()(keras.layers.Dense(8, activation="relu")(x))
    return keras.Model(x, keras.layers.Dense(outputs, dtype="float32")(hidden))
""",
}
