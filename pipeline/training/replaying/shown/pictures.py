"""Images of an example as a page shows them: the file as it is stored, and the pixels that the model got."""

import base64

import numpy as np
import tensorflow as tf

from pipeline.data.images.pixels import RESCALING
from pipeline.data.schema.kinds import Image
from pipeline.data.schema.schema import Schema
from pipeline.training.replaying.raw_features import RawFeatures
from pipeline.training.replaying.replayed_step import Example

_LARGEST_STORED = 2 << 20  # 2 MiB: a page of larger ones would take minutes to load
_MEDIA_TYPES = {b"\xff\xd8\xff": "jpeg", b"\x89PNG": "png", b"GIF8": "gif", b"RIFF": "webp", b"BM": "bmp"}


def stored(features: RawFeatures, schema: Schema) -> str | None:
    """The file of an example's image as a data URL; None where there is none, or it is large."""
    images = schema.of_kind(Image)
    data = bytes(features[images[0].name][()]) if images else b""
    kinds = [kind for start, kind in _MEDIA_TYPES.items() if data.startswith(start)]
    if not kinds or len(data) > _LARGEST_STORED:
        return None
    return _url(data, kinds[0])


def augmented(example: Example) -> str | None:
    """The pixels that the model got, as the data URL of a PNG; None where it gets no image."""
    pixels = example.inputs.get("image")
    return None if pixels is None else _url(tf.io.encode_png(_as_bytes(pixels)).numpy(), "png")


def _as_bytes(pixels: np.ndarray) -> np.ndarray:
    """uint8 [height, width, channels] of what may have been scaled on the host."""
    if pixels.dtype == np.uint8:
        return pixels
    scale, offset = RESCALING
    return np.clip(np.round((pixels.astype(np.float32) - offset) / scale), 0, 255).astype(np.uint8)


def _url(data: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
