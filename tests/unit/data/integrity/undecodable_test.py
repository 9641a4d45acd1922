"""A record whose image does not decode, or is refused, is named."""

import pathlib

import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.dataset.selection import select
from pipeline.data.images.decoding import decode_images
from pipeline.data.integrity.damage import naming_damage
from pipeline.data.schema.feature_types import Image, Label
from pipeline.data.schema.schema import Schema
from tests.shared.pictures import encode, noise
from tests.shared.tiny_dataset import write_dataset

GOOD = encode(noise(6, 4, 3), "PNG")
SCHEMA = Schema(
    name="pictures", features=(Image(name="image", max_pixels=30), Label(name="y", classes=("a", "b")))
)


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (GOOD[:40], r"image 'image': received an image that does not decode \(.*PNG.*\); expected"),
        (encode(noise(8, 4, 3), "PNG"), r"image 'image': received 8 x 4 pixels"),
        (b"<html>", "image 'image': received data that begins with b'<html>"),
    ],
)
def test_the_record_is_named(tmp_path: pathlib.Path, bad: bytes, expected: str):
    rows = [{"image": bad if number == 4 else GOOD, "y": 0} for number in range(6)]
    selection = select(write_dataset(tmp_path / "pictures", SCHEMA, {"train": rows}), "train")
    where = r"split 'train', pictures-train.tfrecord-0000\d-of-00002, record \d at byte \d+"
    with pytest.raises(InputError, match=f"{where}: {expected}"), naming_damage(selection):
        decode_images(tf.constant([GOOD, bad]), (6, 4, 3), max_pixels=30)


def test_an_error_of_something_else_passes(tmp_path: pathlib.Path):
    dataset = write_dataset(tmp_path / "pictures", SCHEMA, {"train": [{"image": GOOD, "y": 0}]}, shards=1)
    with pytest.raises(tf.errors.InvalidArgumentError), naming_damage(select(dataset, "train")):
        tf.reshape([1, 2, 3], [2])
