"""Names the record whose image does not decode: TensorFlow's error says only what is wrong with the image."""

import itertools
import re
from collections.abc import Iterator, Sequence

import tensorflow as tf
from tqdm import tqdm

from pipeline.data.dataset import tfrecord
from pipeline.data.dataset.selection import Selection
from pipeline.data.errors import InputError
from pipeline.data.images import limits
from pipeline.data.images.decoding import decode_image
from pipeline.data.integrity.checksums import DamagedRecord, described, stored_frame
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
    ranges = selection.record_ranges if images else ()
    count = sum(last - first for first, last in ranges)
    numbers = itertools.chain.from_iterable(itertools.starmap(range, ranges))
    shown = tqdm(numbers, total=count, desc="looking for the image", unit="record", delay=_PROGRESS_AFTER_S)
    for number in shown:
        shard = selection.shards.shard_of_record(number)
        payload = stored_frame(selection, shard, number)[0][tfrecord.HEADER_BYTES : -tfrecord.CRC_BYTES]
        for image in images:
            try:
                _decode(payload, image)
            except tf.errors.InvalidArgumentError as error:
                reason = _NODE.sub("", error.message)
                yield described(selection, shard, number, f"image '{image.name}'"), reason


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
