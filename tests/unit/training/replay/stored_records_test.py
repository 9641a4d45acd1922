"""Records of a step are compared with what was published, in blocks too, which are mapped into memory."""

import numpy as np
import pytest

from pipeline.base.errors import InputError
from pipeline.data.dataset.selection import Selection, select
from pipeline.training.replay.stream import payload, records_of, require_sound
from tests.shared.small_run import write_small_dataset


@pytest.fixture(params=["rows", "blocks"])
def selection(request, tmp_path) -> Selection:
    """Of 200 rows in two shards."""
    return select(write_small_dataset(tmp_path / "data", layout=request.param), "train")


def records(selection: Selection, numbers: list[int]):
    pairs = np.array([(0, number) for number in numbers])
    return records_of(selection, np.arange(len(numbers)), pairs)


def test_a_changed_byte_is_found_in_its_record_alone(selection):
    before, after = records(selection, [3, 150])  # of the first shard, and of the second
    shard = selection.dataset.directory / after.file
    data = shard.read_bytes()
    at = data.index(payload(selection, after)) + 40
    shard.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    require_sound(selection, [before])
    with pytest.raises(InputError, match=rf"damaged record: {after.file}, record {after.ordinal:,} at byte"):
        require_sound(selection, [before, after])


def test_a_file_that_was_cut_is_named(selection):
    (record,) = records(selection, [150])
    shard = selection.dataset.directory / record.file
    shard.write_bytes(shard.read_bytes()[:20])
    with pytest.raises(InputError, match=rf"damaged record: {record.file}, record {record.ordinal:,} at"):
        require_sound(selection, [record])
