"""Names the record whose image does not decode: TensorFlow's error says only what is wrong with the image."""

import pathlib
import re
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from pipeline.data.dataset import tfrecord
from pipeline.data.dataset.selection import Selection
from pipeline.data.errors import InputError
from pipeline.data.images import limits
from pipeline.data.images.decoding import decode_image
from pipeline.data.integrity.checksums import DamagedRecord, described, selected_records
from pipeline.data.schema.kinds import Image

_PROGRESS_AFTER_S = 2.0
_NODE = re.compile(r"\{\{.*?\}\}\s*|\s*\[Op:.*|\n.*", re.DOTALL)  # what TensorFlow says of its own graph


def problem(selections: Sequence[Selection], message: str) -> InputError | None:
    """What to tell of the first selected record whose image does not decode, None without one.

    Decodes the images up to that one again.

    Args:
      message: of the error that ended the reading.
    """
    for selection in selections:
        for record, reason in _undecodable(selection):
            where = f"dataset {selection.dataset}, split '{selection.expression}', {record}"
            return limits.refusal(reason, where=f"image of {where}") or _undecoded(where, reason)
    return limits.refusal(message)


def _undecodable(selection: Selection) -> Iterator[tuple[DamagedRecord, str]]:
    """Records with TensorFlow's message on their image, in stored order."""
    images = selection.dataset.schema.of_kind(Image)
    numbers = selected_records(selection) if images else np.zeros(0, np.int64)
    shown = tqdm(numbers.tolist(), desc="looking for the image", unit="record", delay=_PROGRESS_AFTER_S)
    shards = selection.shards
    for number in shown:
        shard = int(np.searchsorted(shards.record_starts, number, side="right")) - 1
        for image in images:
            try:
                _decode(_payload(selection, shard, number), image)
            except tf.errors.InvalidArgumentError as error:
                reason = _NODE.sub("", error.message)
                yield described(selection, shard, number, f"image '{image.name}'"), reason


def _payload(selection: Selection, shard: int, number: int) -> bytes:
    shards = selection.shards
    with pathlib.Path(shards.paths[shard]).open("rb") as file:
        file.seek(int(shards.offsets[number]))
        frame = file.read(int(shards.sizes[number]))
    return frame[tfrecord.HEADER_BYTES : -tfrecord.CRC_BYTES]


def _decode(example: bytes, image: Image) -> None:
    parsed = tf.io.parse_single_example(example, {image.name: tf.io.FixedLenFeature([], tf.string, "")})
    decode_image(parsed[image.name], channels=image.channels, max_pixels=image.max_pixels)


def _undecoded(where: str, reason: str) -> InputError:
    return InputError(
        where,
        received=f"an image that does not decode ({reason})",
        expected="images that TensorFlow decodes, as beam_jobs.convert checks them",
        action="Leave that image out or save it anew, and convert the raw data again.",
    )
