"""The cases of `python -m tests.soak.preflight_models`: public models at public sizes, and shipped configs.

Sizes are those of the models that were published, without their weights. Where one has fewer layers, its name
says so: its weights, AdamW's state and two replicas of them would not fit into the memory of one case.
"""

import dataclasses
import pathlib
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence

from pipeline.data.schema.feature_types import Categorical, Image, Label, Numeric, Tensor, Text, Tokens
from pipeline.data.schema.schema import Schema
from tests.shared import pictures
from tests.shared.tiny_dataset import write_dataset

PHOTOS, DIGITS, WORDS, SPEECH = "photos", "digits", "words", "speech"  # datasets
PEOPLE, CLICKS, REVIEWS, CHOICES, QUERIES = "people", "clicks", "reviews", "choices", "queries"
CORPUS = "corpus"  # with the size of the vocabulary behind it
LENGTH = 128  # tokens of a text
_ROWS = {"train": 64, "test": 8}
_ITEMS = tuple(f"item {number}" for number in range(1_000))
_CLASSES = Label(name="y", task="multiclass", classes=("a", "b", "c"))
_CONFIG = """
from pipeline.configs import base


def get_config():
    config = base.get_config()
    config.global_batch = 32
    config.train.steps = 1_000
    return config
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A training step.

    Attributes:
      batch: examples of a device.
      flags: what names the model; those of `pipeline.preflight`.
    """

    name: str
    dataset: str
    batch: int
    flags: tuple[str, ...]


def _named(name: str, model: str, *, dataset: str, batch: int, side: int = 0, **arguments: object) -> Case:
    size = (f"--config.image_size={side},{side}",) if side else ()
    given = (f"--config.model.{key}={value}" for key, value in arguments.items())
    flags = ("--config=own/config.py", f"--config.model.name={model}", *size, *given)
    return Case(name=name, dataset=dataset, batch=batch, flags=flags)


def _application(model: str, *, side: int = 224) -> Case:
    return _named(model, f"keras.applications:{model}", dataset=PHOTOS, batch=32, side=side)


def _of_photos(name: str, backbone: str, **arguments: object) -> Case:
    model = f"keras_hub:{backbone}Backbone"
    return _named(name, model, dataset=PHOTOS, batch=32, side=224, **arguments)


def _of_words(name: str, backbone: str, vocabulary_size: int, **arguments: object) -> Case:
    """Classifies texts."""
    model, size = f"keras_hub:{backbone}Backbone", {"vocabulary_size": vocabulary_size}
    return _named(name, model, dataset=WORDS, batch=16, **size, **arguments)


def _of_corpus(name: str, backbone: str, vocabulary_size: int, **arguments: object) -> Case:
    """Predicts the next token: the head has an output for each of the vocabulary."""
    model = f"keras_hub:{backbone}Backbone"
    return _named(name, model, dataset=f"{CORPUS}_{vocabulary_size}", batch=8, **arguments)


def _shipped(config: str, *, dataset: str, batch: int, **arguments: object) -> Case:
    given = (f"--config.{key}={value}" for key, value in arguments.items())
    flags = (f"--config=pipeline/configs/{config}.py", *given)
    return Case(name=f"{config}.py", dataset=dataset, batch=batch, flags=flags)


def _transformer(layers: int, heads: int, width: int, hidden: int) -> dict[str, int]:
    sizes = {"num_layers": layers, "num_heads": heads, "hidden_dim": width}
    return {**sizes, "intermediate_dim": hidden}


def _grouped(layers: int, heads: int, groups: int, width: int, hidden: int) -> dict[str, int]:
    sizes = {"num_layers": layers, "num_query_heads": heads, "num_key_value_heads": groups}
    return {**sizes, "hidden_dim": width, "intermediate_dim": hidden}


def _vit(heads: int, width: int) -> dict[str, int]:
    return {"patch_size": 16, "num_layers": 12, "num_heads": heads, "hidden_dim": width, "mlp_dim": 4 * width}


SHIPPED = (
    _shipped("digits_resnet", dataset=DIGITS, batch=64),
    _shipped("mnist_resnet", dataset=DIGITS, batch=128, image_size="28,28"),
    _shipped("adult_wide_deep", dataset=PEOPLE, batch=256),
    _shipped("taxi_wide_deep", dataset=PEOPLE, batch=256),
    _shipped("tabular", dataset=PEOPLE, batch=256),
    _shipped("clicks", dataset=CLICKS, batch=256),
    _shipped("text", dataset=REVIEWS, batch=256),
    _shipped("language_model", dataset=f"{CORPUS}_256", batch=8),
    _shipped("retrieval", dataset=CHOICES, batch=256),
    _shipped("ranking", dataset=QUERIES, batch=16),
    _shipped("image_classification", dataset=PHOTOS, batch=64, image_size="96,96"),
)
PUBLIC = (
    _of_words("BERT-tiny", "Bert", 30_522, **_transformer(2, 2, 128, 512)),
    _of_corpus("Pythia-70M", "GPTNeoX", 50_304, **_transformer(6, 8, 512, 2_048)),
    _of_words("DistilBERT", "DistilBert", 30_522, **_transformer(6, 12, 768, 3_072)),
    _of_photos("ViT-S/16", "ViT", **_vit(6, 384)),
    _of_photos(
        "ResNet-18",
        "ResNet",
        input_conv_filters=(64,),
        input_conv_kernel_sizes=(7,),
        stackwise_num_filters=(64, 128, 256, 512),
        stackwise_num_blocks=(2, 2, 2, 2),
        stackwise_num_strides=(1, 2, 2, 2),
        block_type="basic_block",
    ),
    _application("MobileNetV2"),
    _of_corpus("GPT-2", "GPT2", 50_257, **_transformer(12, 12, 768, 3_072)),
    _named("Whisper base", "own_speech:listener", dataset=SPEECH, batch=8),
    _of_words("FNet base", "FNet", 32_000, num_layers=12, hidden_dim=768, intermediate_dim=3_072),
    _of_words("ALBERT base", "Albert", 30_000, embedding_dim=128, **_transformer(12, 12, 768, 3_072)),
    _named(
        "ELECTRA small",
        "keras_hub:ElectraBackbone",
        dataset=WORDS,
        batch=16,
        vocab_size=30_522,
        embedding_dim=128,
        **_transformer(12, 4, 256, 1_024),
    ),
    _of_words("BERT base", "Bert", 30_522, **_transformer(12, 12, 768, 3_072)),
    _of_words("RoBERTa base", "Roberta", 50_265, **_transformer(12, 12, 768, 3_072)),
    _of_words("DeBERTa-v3 xsmall", "DebertaV3", 128_100, **_transformer(12, 6, 384, 1_536)),
    _named("T5 small", "own_pairs:reader", dataset=WORDS, batch=16),
    _of_corpus("OPT-125M", "OPT", 50_272, **_transformer(12, 12, 768, 3_072)),
    _of_corpus("SmolLM-135M", "Llama", 49_152, **_grouped(30, 9, 3, 576, 1_536)),
    _of_words(
        "Gemma 3 270M",
        "Gemma3",
        262_144,
        image_size=896,
        head_dim=256,
        use_post_ffw_norm=True,
        use_post_attention_norm=True,
        use_sliding_window_attention=True,
        sliding_window_size=512,
        **_grouped(18, 4, 1, 640, 2_048),
    ),
    _of_words("Qwen2.5 0.5B, 6 of 24 layers", "Qwen", 151_936, **_grouped(6, 14, 2, 896, 4_864)),
    _of_words(
        "Qwen3 0.6B, 6 of 28 layers", "Qwen3", 151_936, head_dim=128, **_grouped(6, 16, 8, 1_024, 3_072)
    ),
    _of_words("Llama 3.2 1B, 1 of 16 layers", "Llama3", 128_256, **_grouped(1, 32, 8, 2_048, 8_192)),
    _of_photos("DeiT-Ti", "DeiT", patch_size=16, **_transformer(12, 3, 192, 768)),
    _of_photos("ViT-B/16", "ViT", **_vit(12, 768)),
    _of_photos(
        "Swin-T",
        "SwinTransformer",
        embed_dim=96,
        depths=(2, 2, 6, 2),
        num_heads=(3, 6, 12, 24),
        window_size=7,
    ),
    _of_photos(
        "MiT-B0",
        "MiT",
        layerwise_depths=(2, 2, 2, 2),
        num_layers=4,
        layerwise_num_heads=(1, 2, 5, 8),
        layerwise_sr_ratios=(8, 4, 2, 1),
        max_drop_path_rate=0.1,
        layerwise_patch_sizes=(7, 3, 3, 3),
        layerwise_strides=(4, 2, 2, 2),
        hidden_dims=(32, 64, 160, 256),
    ),
    _application("VGG16"),
    _application("MobileNetV3Large"),
    _application("ConvNeXtTiny"),
    _application("ResNet50"),
    _application("EfficientNetB0"),
    _application("Xception", side=299),
    _application("InceptionV3", side=299),
    _application("EfficientNetV2B0"),
    _application("DenseNet121"),
    _application("NASNetMobile"),
)
CASES = (*SHIPPED, *PUBLIC)
ON_ALL_TARGETS = ("MobileNetV2", "ResNet-18", "ViT-S/16", "DistilBERT", "GPT-2")
SEARCHED = ("digits_resnet.py", "tabular.py", "BERT-tiny", "language_model.py", "DeiT-Ti")

# Models whose inputs no rule fills: a file of one's own, as docs/training.md has it.
OWN_FILES = {
    "own_speech.py": """
import keras
import keras_hub
from keras import ops


def listener(numeric, outputs, seconds=30):
    sound = keras.Input((numeric,), name="numeric")
    whisper = keras_hub.models.WhisperBackbone(
        vocabulary_size=51_865, num_layers=6, num_heads=8, hidden_dim=512, intermediate_dim=2_048
    )
    start = ops.zeros_like(sound[:, :1], dtype="int32")
    features = {
        "encoder_features": keras.layers.Reshape((100 * seconds, 80))(sound),
        "decoder_token_ids": start,
        "decoder_padding_mask": start + 1,
    }
    state = whisper(features)["decoder_sequence_output"][:, 0]
    return keras.Model(sound, keras.layers.Dense(outputs, dtype="float32")(state))
""",
    "own_pairs.py": """
import keras
import keras_hub
from keras import ops


def reader(sequence_length):
    words = keras.Input((sequence_length,), dtype="int32", name="words")
    mask = ops.cast(words != 0, "int32")
    t5 = keras_hub.models.T5Backbone(
        vocabulary_size=32_128, num_layers=6, num_heads=8, hidden_dim=512, intermediate_dim=2_048
    )
    both = {"encoder_token_ids": words, "encoder_padding_mask": mask}
    both |= {"decoder_token_ids": words, "decoder_padding_mask": mask}
    return keras.Model(words, t5(both)["decoder_sequence_output"])
""",
}


# --- Their datasets: random values, as a step's program does not depend on them.


def make_dataset(scratch: pathlib.Path, name: str) -> pathlib.Path:
    """The folder of a dataset, which is written where it is not there yet."""
    folder = scratch / name / "1.0.0"
    if not folder.exists():
        if name == QUERIES:
            _convert_queries(scratch / name)
        else:
            schema = Schema(name=name, features=_features(name))
            draw = random.Random(name)
            splits = {split: [*_rows(schema, count, draw)] for split, count in _ROWS.items()}
            write_dataset(folder, schema, splits)
    return folder


def write_files(scratch: pathlib.Path) -> None:
    """Writes the config, and the files of one's own."""
    (scratch / "own").mkdir(exist_ok=True)
    for name, text in ({"config.py": _CONFIG} | OWN_FILES).items():
        (scratch / "own" / name).write_text(text.lstrip())


def _features(name: str) -> tuple:
    kind, _, vocabulary = name.partition("_")
    if kind == CORPUS:
        return (Tokens(name="words", length=LENGTH, vocabulary_size=int(vocabulary)),)
    table = (
        Numeric(name="age"),
        Numeric(name="hours"),
        Categorical(name="city", vocabulary=("Bern", "Rome")),
    )
    hashed = (Categorical(name=f"c{n}", encoding="hashed", buckets=100_000) for n in range(4))
    features: Mapping[str, Sequence] = {
        PHOTOS: (Image(name="photo", height=32, width=32, channels=3), _CLASSES),
        DIGITS: (Image(name="photo", height=8, width=8, channels=1), _CLASSES),
        WORDS: (Tokens(name="words", length=LENGTH, vocabulary_size=1_000), _CLASSES),
        SPEECH: (Tensor(name="sound", dimensions=(3_000, 80)), _CLASSES),
        PEOPLE: (*table, Label(name="y", classes=("no", "yes"))),
        CLICKS: (table[0], *hashed, Label(name="y", classes=("no", "yes"))),
        REVIEWS: (Text(name="review", pairs=True, characters=(3, 5)), _CLASSES),
        CHOICES: (*table, Label(name="y", task="retrieval", classes=_ITEMS)),
    }
    return tuple(features[kind])


def _rows(schema: Schema, count: int, draw: random.Random) -> Iterator[dict]:
    for _ in range(count):
        yield {each.name: _value(each, draw) for each in schema.features}


def _value(feature: object, draw: random.Random) -> object:
    match feature:
        case Image():
            pixels = pictures.noise(
                feature.height, feature.width, feature.channels, seed=draw.randrange(1_000)
            )
            return pictures.encode(pixels if feature.channels == 3 else pixels[:, :, 0], "PNG")
        case Label():
            return draw.randrange(len(feature.classes))
        case Tokens():
            return [draw.randrange(feature.vocabulary_size) for _ in range(feature.length)]
        case Tensor():  # one value for all: 240,000 draws a row would take longer than a compilation
            return [draw.gauss(0, 1)] * (feature.dimensions[0] * feature.dimensions[1])
        case Text():
            return " ".join(draw.choices(("good", "bad", "long", "film", "and"), k=12))
        case Categorical():
            return draw.choice(feature.vocabulary or ("x", "y", "z"))
        case _:
            return draw.gauss(0, 1)


def _convert_queries(folder: pathlib.Path) -> None:
    """Groups of rows, which the converter alone writes."""
    folder.mkdir(exist_ok=True)
    draw, lines = random.Random(0), ["query,x,z,relevance"]
    for query in range(200):
        for _ in range(8):
            lines.append(f"{query},{draw.gauss(0, 1):.4f},{draw.gauss(0, 1):.4f},{draw.randrange(4)}")
    (folder / "raw.csv").write_text("\n".join([*lines, ""]))
    given = (f"--input={folder / 'raw.csv'}",)
    schema = folder / "schema.json"
    command = (sys.executable, "-m")
    labelled = ("--label=relevance", "--group=query", f"--output={schema}")
    subprocess.run((*command, "beam_jobs.infer_schema", *given, *labelled), check=True)
    output = (f"--schema={schema}", f"--output={folder / '1.0.0'}")
    subprocess.run((*command, "beam_jobs.convert", *given, *output), check=True)
