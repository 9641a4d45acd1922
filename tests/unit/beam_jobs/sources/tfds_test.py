"""Datasets prepared by TensorFlow Datasets: one written here, one that TFDS mocks."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from beam_jobs.cells.typed import parse
from beam_jobs.sources.source import Input, InputSplit, RawRows
from beam_jobs.sources.tfds import TfdsDatasets
from pipeline.base.errors import InputError
from pipeline.data.schema.feature_types import Image
from tests.shared.fixtures.raw_data import fruit_pixels

FEATURES = tfds.features.FeaturesDict(
    {
        "image": tfds.features.Image(shape=(4, 6, 3)),
        "kind": tfds.features.ClassLabel(names=["apple", "pear"]),
        "note": tfds.features.Text(),
        "size": {"weight": np.float32, "box": tfds.features.Tensor(shape=(2, 2), dtype=np.int64)},
        "years": tfds.features.Sequence(np.int64),
    }
)


def example(i: int) -> dict:
    size = {"weight": i / 2, "box": np.array([[i, 1], [2, 3]])}
    return {
        "image": fruit_pixels(i),
        "kind": i % 2,
        "note": f"no. {i}",
        "size": size,
        "years": list(range(i)),
    }


def read(location: str, **options: object) -> dict[str, list[RawRows]]:
    """What is read of each split."""
    source = TfdsDatasets(**options)
    splits: dict[str, list[RawRows]] = {}
    for input_split in source.input_splits([Input(location=location)]):
        splits.setdefault(input_split.split, []).extend(
            raw for raw in source.read(input_split) if raw.rows_read
        )
    return splits


@pytest.fixture(scope="module")
def fruit_directory(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    directory = tmp_path_factory.mktemp("tfds") / "fruit" / "1.0.0"
    directory.mkdir(parents=True)
    template = tfds.core.ShardedFileTemplate(
        dataset_name="fruit", data_dir=directory, filetype_suffix="tfrecord"
    )
    splits = []
    for split, n in {"train": 7, "test": 3}.items():
        path = directory / f"fruit-{split}.tfrecord-00000-of-00001"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for i in range(n):
                writer.write(FEATURES.serialize_example(FEATURES.encode_example(example(i))))
        size = path.stat().st_size
        splits.append(
            tfds.core.SplitInfo(name=split, shard_lengths=[n], num_bytes=size, filename_template=template)
        )
    tfds.folder_dataset.write_metadata(
        data_dir=directory, features=FEATURES, split_infos=splits, filename_template=template
    )
    return directory


def test_a_prepared_dataset_keeps_splits_names_and_bytes(fruit_directory: pathlib.Path):
    splits = read(f"tfds:{fruit_directory}", examples_in_split=4)
    rows = [row for raw in splits["train"] for row in raw.columns.to_pylist()]
    assert {split: sum(raw.rows_read for raw in found) for split, found in splits.items()} == {
        "train": 7,
        "test": 3,
    }
    assert [number for raw in splits["train"] for number in raw.numbers] == [1, 2, 3, 4, 5, 6, 7]
    by_note = {row["note"].decode(): row for row in rows}
    assert by_note["no. 3"]["kind"] == "pear"
    assert (by_note["no. 3"]["size.weight"], by_note["no. 3"]["size.box"]) == (1.5, [3, 1, 2, 3])
    images = [raw.column("image") for raw in splits["train"]]
    assert not any(parse(Image(name="i", height=4, width=6), cells).problems for cells in images)


def test_what_tfds_mocks_is_read():
    input_split = InputSplit(paths=("tfds:mnist@train",), root="", bytes=1, start=0, end=5)
    with tfds.testing.mock_data(num_examples=5):
        raw = [raw for raw in TfdsDatasets().read(input_split) if raw.rows_read]
    assert [part.rows_read for part in raw] == [5]
    assert set(raw[0].columns.schema.names) == {"image", "label"}


@pytest.mark.parametrize(
    ("location", "message"),
    [("tfds:nonesuch", "no such dataset"), ("tfds:mnist", "tfds build mnist"), ("{}@other", "split 'other'")],
)
def test_what_is_not_there_is_refused(
    fruit_directory: pathlib.Path,
    location: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
):
    monkeypatch.setattr(tfds.core.constants, "DATA_DIR", str(tmp_path))
    with pytest.raises(InputError, match=message):
        TfdsDatasets().input_splits([Input(location=location.format(f"tfds:{fruit_directory}"))])
