"""What is not as published: a damaged record costs itself, within a budget; anything else is refused by name.

For records of single rows, read by windows or one by one, and for blocks, read by windows or mapped.
"""

import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.dataset import shards
from pipeline.data.dataset.manifest import Dataset, open_dataset
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.dataset.tfrecord import CRC_BYTES, FRAME_BYTES, HEADER_BYTES, frame
from pipeline.data.images.decoding import decode_images
from pipeline.data.integrity import damage
from pipeline.data.integrity.damage import naming_damage
from pipeline.data.integrity.scan import DamagedRecord
from pipeline.data.reading.parsing import parse_rows
from pipeline.data.reading.plan import plan_reading
from pipeline.data.reading.sharding import Share
from pipeline.data.reading.windows import stored_rows
from pipeline.data.schema.feature_types import Image, Label
from pipeline.data.schema.schema import Schema
from tests.shared.matrix import quick_cases
from tests.shared.pictures import encode, noise
from tests.shared.tiny_dataset import write_dataset
from tests.unit.data.reading.id_stream import SCHEMA, ids_of, write

NO_EXAMPLES = {
    "nothing": b"",
    "garbage": b"\xff\xff\xffgarbage",
    "a float": tf.train.Example(
        features=tf.train.Features(
            feature={"id": tf.train.Feature(float_list=tf.train.FloatList(value=[1.0]))}
        )
    ).SerializeToString(),
}

FIRST = 1 << 15  # from there on, all ids take as many bytes: only their content tells the shards apart
ROWS = {"rows": 300, "blocks": 5_000}  # in two shards; in blocks of 1,024
WAYS = (("rows", "windows"), ("rows", "global"), ("blocks", "windows"), ("blocks", "global"))
BYTES = {"length": 0, "checksum of the length": 9, "payload": HEADER_BYTES + 5, "checksum": -1}
SECOND = "ids-train.tfrecord-00001-of-00002"

in_each_layout = pytest.mark.parametrize("layout", ["rows", "blocks"])


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    directory = tmp_path_factory.mktemp("published")
    for layout, count in ROWS.items():
        write(directory / layout, range(FIRST, FIRST + count), layout=layout)
    return directory


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.data.input.training.GROUP_ROWS", 50)


@pytest.fixture
def copy(published: pathlib.Path, tmp_path: pathlib.Path, layout: str) -> pathlib.Path:
    """A dataset that the test may damage."""
    return pathlib.Path(shutil.copytree(published / layout, tmp_path / layout))


def flip(dataset: pathlib.Path, *, ordinal: int, byte: int = BYTES["payload"]) -> int:
    """Flips a bit of a byte of a record of the second shard; returns the offset of the record."""
    found = shards.load(dataset / shards.file_name(SECOND))
    offset, size = int(found.offsets[ordinal]), int(found.lengths[ordinal]) + FRAME_BYTES
    data = bytearray((dataset / SECOND).read_bytes())
    data[offset + byte % size] ^= 1
    (dataset / SECOND).write_bytes(data)
    return offset


def modify(dataset: pathlib.Path, *, ordinal: int) -> None:
    """The same, with a checksum that fits what stands there then."""
    offset = flip(dataset, ordinal=ordinal)
    data = bytearray((dataset / SECOND).read_bytes())
    end = offset + HEADER_BYTES + int(shards.load(dataset / shards.file_name(SECOND)).lengths[ordinal])
    data[offset : end + CRC_BYTES] = frame([bytes(data[offset + HEADER_BYTES : end])])
    (dataset / SECOND).write_bytes(data)


def within(dataset: Dataset, budget: int, **known) -> tuple[Selection, tuple[DamagedRecord, ...]]:
    selections, damaged = damage.sound_selection({"train": select(dataset, "train")}, budget=budget, **known)
    return selections["train"], damaged


def ids(selection: Selection, shuffle: str, *, position: int = 0, epochs: int = 1) -> list[int]:
    share = Share(global_batch=10)
    plan = plan_reading(selection, share=share, seed=1, position=position, shuffle=shuffle)
    count = epochs * selection.rows - position
    return ids_of(plan, batches=-(-count // share.batch))[:count].tolist()


@pytest.mark.parametrize(
    ("layout", "shuffle", "byte"),
    quick_cases(
        [(*way, byte) for way in WAYS for byte in BYTES],
        [("rows", "windows", "payload"), ("blocks", "global", "length")],
    ),
)
def test_a_flipped_byte_costs_its_record_within_the_budget(copy, layout: str, shuffle: str, byte: str):
    offset = flip(copy, ordinal=1, byte=BYTES[byte])
    selection, [damaged] = within(open_dataset(copy), budget=1)
    lost = 1 if layout == "rows" else 1024
    assert (damaged.file, damaged.ordinal, damaged.offset, damaged.rows) == (SECOND, 1, offset, lost)
    stream = ids(selection, shuffle, epochs=2)
    kept = set(stream[: selection.rows])
    assert len(kept) == selection.rows == ROWS[layout] - lost
    assert set(stream[selection.rows :]) == kept
    assert ids(selection, shuffle, position=250) == stream[250 : selection.rows]


@pytest.mark.parametrize(("layout", "shuffle"), quick_cases(WAYS[:3], [("rows", "windows")]))
def test_without_a_budget_a_flipped_byte_ends_the_run_by_name(copy, shuffle: str):
    offset = flip(copy, ordinal=1)
    damaged = (
        rf"1 damaged record: {SECOND}, record 1 at byte {offset:,}: the checksum of its [\d,]+ bytes is wrong"
    )
    selection, _ = within(open_dataset(copy), budget=0)
    with pytest.raises(InputError, match=rf"{damaged};.*--max_corrupt_records=1"), naming_damage(selection):
        ids(selection, shuffle)


@pytest.mark.parametrize("layout", ["blocks"])
def test_without_a_budget_a_shard_is_not_mapped_that_has_another_digest(copy):
    flip(copy, ordinal=1)
    selection = select(open_dataset(copy), "train")
    with pytest.raises(InputError, match=rf"{SECOND}: received SHA-256 .*--max_corrupt_records"):
        ids(selection, "global")


@in_each_layout
def test_evaluation_leaves_out_the_same(copy, layout: str):
    flip(copy, ordinal=0)
    selection, _ = within(open_dataset(copy), budget=1)
    rows = [parse_rows(rows, SCHEMA)[0]["id"] for _, rows in stored_rows(selection)]
    assert len(np.unique(np.concatenate(rows))) == selection.rows < ROWS[layout]


@in_each_layout
def test_a_budget_is_not_exceeded(copy):
    flip(copy, ordinal=0)
    flip(copy, ordinal=1)
    with pytest.raises(InputError, match=r"received 1 for 2 damaged records: .*max_corrupt_records=2"):
        within(open_dataset(copy), budget=1)


@pytest.mark.parametrize("layout", ["rows"])
def test_only_damage_in_selected_rows_counts(copy, layout: str):
    flip(copy, ordinal=0)
    dataset = open_dataset(copy)
    for expression, damaged in {"train[:50%]": 0, "train[50%:]": 1}.items():
        selections, found = damage.sound_selection({"": select(dataset, expression)}, budget=1)
        assert len(found) == damaged
        assert selections[""].rows == ROWS[layout] / 2 - damaged


@in_each_layout
def test_a_run_goes_on_without_what_it_left_out_from_its_start(copy, published, layout):
    flip(copy, ordinal=1)
    before, damaged = within(open_dataset(copy), budget=2)
    known = damage.damage_from_json(damage.damage_to_json(damaged))
    shutil.copy(published / layout / SECOND, copy / SECOND)  # repaired meanwhile
    after, _ = within(open_dataset(copy), budget=2, known=known)
    assert after.ranges == before.ranges
    flip(copy, ordinal=0)
    with pytest.raises(InputError, match=r"1 damaged record: .*record 0 at byte 0.*empty --workdir"):
        within(open_dataset(copy), budget=2, known=known)


@pytest.mark.parametrize("layout", ["rows"])
def test_a_run_that_left_something_out_keeps_its_budget(copy):
    flip(copy, ordinal=1)
    _, known = within(open_dataset(copy), budget=1)
    with pytest.raises(InputError, match="received 0, in a run that goes on without 1 damaged record"):
        within(open_dataset(copy), budget=0, known=known)


@pytest.mark.parametrize(
    ("layout", "is_gone"),
    quick_cases([(layout, is_gone) for layout in ROWS for is_gone in (True, False)], [("rows", True)]),
)
def test_a_file_that_changes_after_it_was_opened_is_named(copy, is_gone: bool):
    selection = select(open_dataset(copy), "train")
    (copy / SECOND).unlink() if is_gone else (copy / SECOND).write_bytes(b"")
    naming_it = pytest.raises(InputError, match=rf"{SECOND}: received (no such file|0 bytes)")
    with naming_it, naming_damage(selection):
        ids(selection, "windows")


@in_each_layout
def test_swapped_shards_are_told_by_their_content(copy):
    first = copy / SECOND.replace("00001-of", "00000-of")
    content = first.read_bytes()
    first.write_bytes((copy / SECOND).read_bytes())
    (copy / SECOND).write_bytes(content)
    with pytest.raises(InputError, match=rf"{first.name}: received .*was modified or swapped"):
        select(open_dataset(copy), "train")


@pytest.mark.parametrize("layout", ["rows"])  # of so few blocks, all are in the sample that opening looks at
def test_a_modified_record_is_told_by_its_hash_though_its_checksum_fits(copy):
    modify(copy, ordinal=1)
    _, [damaged] = within(open_dataset(copy), budget=1)
    assert str(damaged).startswith(f"{SECOND}, record 1 at byte ")
    assert damaged.reason.endswith("bytes are sound, but not those that were published")


@in_each_layout
def test_a_stale_index_is_refused(copy):
    name = shards.file_name(SECOND)
    shutil.copy(copy / shards.file_name(SECOND.replace("00001-of", "00000-of")), copy / name)
    with pytest.raises(InputError, match=rf"dataset file .*{name}: received SHA-256"):
        select(open_dataset(copy), "train")


@pytest.mark.parametrize("layout", ["rows"])
def test_an_index_that_is_not_read_as_a_whole_is_compared_with_the_records(copy, monkeypatch):
    monkeypatch.setattr(shards, "HELD_RECORDS", 1)
    name = shards.file_name(SECOND)
    content = bytearray((copy / name).read_bytes())
    content[shards.offset_at(1)] ^= 1
    (copy / name).write_bytes(content)
    dataset = open_dataset(copy)
    with pytest.raises(InputError, match=rf"dataset file .*{name}: received SHA-256"):
        within(dataset, budget=1)
    shutil.copy(copy / shards.file_name(SECOND.replace("00001-of", "00000-of")), copy / name)
    with pytest.raises(InputError, match=r"a record 0 that is sound, but not the one that was published"):
        select(dataset, "train")


@pytest.mark.parametrize("layout", ["rows"])
def test_an_error_that_is_no_damage_stays_what_it_is(copy):
    as_it_is = pytest.raises(tf.errors.InvalidArgumentError, match="another matter")
    with as_it_is, naming_damage(select(open_dataset(copy), "train")):
        raise tf.errors.InvalidArgumentError(None, None, "another matter")


@pytest.mark.parametrize("record", NO_EXAMPLES.values(), ids=NO_EXAMPLES)
def test_a_sound_record_that_is_no_such_example_is_told_in_one_line(published, record: bytes):
    selection = select(open_dataset(published / "rows"), "train")
    told = rf"dataset {published / 'rows'}: received a sound record that its schema does not describe"
    with pytest.raises(InputError, match=told), naming_damage(selection):
        parse_rows(tf.constant([record]), SCHEMA)


@pytest.mark.parametrize("layout", ["rows"])
def test_a_shard_in_whose_place_a_directory_stands_is_told_of_at_once(copy: pathlib.Path):
    selection = select(open_dataset(copy), "train")
    (copy / SECOND).unlink()
    (copy / SECOND).mkdir()
    with (
        pytest.raises(InputError, match=rf"{SECOND}: received not an ordinary file"),
        naming_damage(selection),
    ):
        list(stored_rows(selection))


# A record whose image does not decode, or is refused, is named.
GOOD = encode(noise(6, 4, 3), "PNG")
PICTURES = Schema(
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
    selection = select(write_dataset(tmp_path / "pictures", PICTURES, {"train": rows}), "train")
    where = r"split 'train', pictures-train.tfrecord-0000\d-of-00002, record \d at byte \d+"
    with pytest.raises(InputError, match=f"{where}: {expected}"), naming_damage(selection):
        decode_images(tf.constant([GOOD, bad]), (6, 4, 3), max_pixels=30)


def test_an_error_of_something_else_passes(tmp_path: pathlib.Path):
    dataset = write_dataset(tmp_path / "pictures", PICTURES, {"train": [{"image": GOOD, "y": 0}]}, shards=1)
    with pytest.raises(tf.errors.InvalidArgumentError), naming_damage(select(dataset, "train")):
        tf.reshape([1, 2, 3], [2])
