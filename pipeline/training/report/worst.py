"""The pictures of the final split with the largest losses: what worst.json holds, and the report's section.

Their thumbnails stand in the file, so the page shows them after the dataset has gone.
"""

import base64
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from pipeline.data.dataset.selection import Selection
from pipeline.data.images.decoding import decode_image
from pipeline.data.origins.reader import raw_rows
from pipeline.data.reading.positions import stored_order
from pipeline.data.reading.source import stored_rows
from pipeline.data.schema.feature_types import Image
from pipeline.data.schema.schema import Schema
from pipeline.report import formats
from pipeline.report.html import Markup, tag
from pipeline.report.section import Section
from pipeline.training.tasks.classification import cross_entropies

_MOST = 12  # pictures
_SIDE = 96  # pixels of a thumbnail: its PNG has 37 kB at most with alpha, so all of them half a megabyte
_MOST_NUMBERS = 20_000_000  # with more predictions, which stay in memory until then, there are none


def is_for(schema: Schema, final: Selection) -> bool:
    """Returns whether there are worst pictures: the model tells one class of several by a picture."""
    label = schema.label
    is_told = bool(schema.of_type(Image)) and label.task in ("binary", "multiclass") and not schema.group
    return is_told and final.rows * len(label.classes) <= _MOST_NUMBERS


def worst_pictures(final: Selection, labels: np.ndarray, predictions: np.ndarray) -> list[dict]:
    """Returns the examples with the largest losses, the worst first, as worst.json holds them.

    Args:
      labels: classes of all rows in stored order, int [n].
      predictions: probabilities, [n, classes].

    Raises:
      InputError: a record is damaged.
    """
    own = predictions[np.arange(len(labels)), labels]
    positions = np.argsort(own, kind="stable")[:_MOST]
    schema = final.dataset.schema
    (image, *_), classes = schema.of_type(Image), schema.label.classes
    stored = stored_rows(final)[positions][image.name]
    return [
        {
            "label": classes[labels[at]],
            "predicted": classes[int(predictions[at].argmax())],
            "probability": float(predictions[at].max()),
            "loss": float(cross_entropies(own[at])),
            "source": source,
            "png": base64.b64encode(_thumbnail(data, image)).decode(),
        }
        for at, data, source in zip(positions, stored, _sources(final, positions), strict=True)
    ]


def _sources(final: Selection, positions: np.ndarray) -> list[str]:
    """Where the picture of each position comes from: its raw file, or its record where that is not known."""
    shards, places = final.shards, []
    for number in stored_order(final)(positions).tolist():
        shard, record = shards.place_of_record(shards.record_of_row(number))
        places.append((shards.names[shard], record))
    return [
        str(raw) if raw else f"{file} record {record:,}"
        for raw, (file, record) in zip(raw_rows(final.dataset, places), places, strict=True)
    ]


def _thumbnail(data: bytes, image: Image) -> bytes:
    """A PNG of the picture, whose longer side has `_SIDE` pixels at most."""
    pixels = decode_image(tf.constant(data), channels=image.channels, max_pixels=image.max_pixels)
    height, width = pixels.shape[:2]
    if max(height, width) > _SIDE:
        size = [max(1, round(side * _SIDE / max(height, width))) for side in (height, width)]
        resized = tf.image.resize(pixels, size, antialias=True)
        pixels = tf.cast(tf.clip_by_value(tf.round(resized), 0, 255), tf.uint8)
    return tf.io.encode_png(pixels).numpy()


def worst_section(found: Sequence[Mapping]) -> Section | None:
    """The pictures with label, answer and file; None where there are none."""
    if not found:
        return None
    pictures = tag("div", *map(_picture, found), class_="pictures")
    return Section(title="Pictures with the largest losses", parts=[pictures], id="worst")


def _picture(example: Mapping) -> Markup:
    answer = f"{example['predicted']} {formats.percent(example['probability'])}"
    caption = (
        tag("b", f"{example['label']} → {answer}"),
        tag("span", f"loss {formats.number(example['loss'])}, {example['source']}"),
    )
    picture = tag("img", src=f"data:image/png;base64,{example['png']}", alt=example["source"])
    return tag("figure", picture, tag("figcaption", *caption))
