"""The training stream: every record once an epoch, the same from any position, other in every epoch."""

import re

import numpy as np
import pytest

from pipeline.data import reader
from pipeline.data.errors import InputError
from pipeline.data.features import Label, Numeric
from pipeline.data.manifest import Dataset
from pipeline.data.parse import parse_examples
from pipeline.data.schema import Schema
from tests.tiny_dataset import write_dataset

SCHEMA = Schema(name="ids", features=(Numeric(name="id"), Label(name="y", classes=("no", "yes"))))
RECORDS = 103


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    rows = [{"id": float(i), "y": i % 2} for i in range(RECORDS)]
    return write_dataset(tmp_path_factory.mktemp("ids") / "1.0.0", SCHEMA, {"train": rows}, shards=3)


def ids_from(dataset: Dataset, *, position: int, count: int, seed: int = 1, window: int = 10) -> list[int]:
    stream = reader.shuffled_order(dataset, "train", seed=seed, position=position, window=window)
    index, serialized = next(iter(stream.batch(count)))
    np.testing.assert_array_equal(index, np.arange(position, position + count))
    return [int(i) for i in parse_examples(serialized, SCHEMA)[0]["id"].numpy()]


def test_every_epoch_holds_every_record_once(dataset: Dataset):
    ids = ids_from(dataset, position=0, count=3 * RECORDS)
    for epoch in range(3):
        assert sorted(ids[epoch * RECORDS : (epoch + 1) * RECORDS]) == list(range(RECORDS))


def test_epochs_and_seeds_differ(dataset: Dataset):
    ids = ids_from(dataset, position=0, count=2 * RECORDS)
    assert ids[:RECORDS] != ids[RECORDS:]
    assert ids[:RECORDS] != ids_from(dataset, position=0, count=RECORDS, seed=2)


@pytest.mark.parametrize("position", [1, 50, RECORDS - 1, RECORDS, RECORDS + 7, 2 * RECORDS + 1])
def test_the_stream_from_a_position_is_the_rest_of_the_whole_stream(dataset: Dataset, position: int):
    whole = ids_from(dataset, position=0, count=3 * RECORDS)
    assert ids_from(dataset, position=position, count=RECORDS - 10) == whole[position:][: RECORDS - 10]


def test_stored_order_holds_every_record_once(dataset: Dataset):
    serialized = next(iter(reader.stored_order(dataset, "train").batch(RECORDS + 1)))
    assert sorted(parse_examples(serialized, SCHEMA)[0]["id"].numpy()) == list(range(RECORDS))


def test_an_unknown_split_is_named(dataset: Dataset):
    with pytest.raises(InputError, match="split 'test'; expected one of train"):
        reader.stored_order(dataset, "test")


def test_a_flipped_byte_names_its_shard(tmp_path):
    rows = [{"id": float(i), "y": 0} for i in range(20)]
    dataset = write_dataset(tmp_path / "1.0.0", SCHEMA, {"train": rows}, shards=2)
    shard = tmp_path / "1.0.0" / "ids-train.tfrecord-00001-of-00002"
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    naming_it = pytest.raises(InputError, match=re.escape(shard.name))
    with naming_it, reader.naming_damage(dataset, "train"):
        list(reader.stored_order(dataset, "train"))
