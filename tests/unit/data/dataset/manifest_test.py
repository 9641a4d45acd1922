"""A dataset opens only as it was published, and says how it was converted."""

import dataclasses
import errno
import json
import os
import pathlib

import pytest

from pipeline.base import documents
from pipeline.base.errors import InputError, TryAgainError
from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.dataset import records
from pipeline.data.dataset.manifest import Dataset, in_order
from pipeline.data.schema.feature_types import Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading
from tests.shared.published import republish
from tests.shared.tiny_dataset import write_dataset

SCHEMA = Schema(name="tiny", features=(Numeric(name="x"), Label(name="y", classes=("a", "b"))))


@pytest.fixture
def dataset(tmp_path) -> Dataset:
    rows = [{"x": float(i), "y": i % 2} for i in range(10)]
    return write_dataset(tmp_path / "1.0.0", SCHEMA, {"train": rows[:7], "test": rows[7:]})


def test_an_opened_dataset_tells_its_splits(dataset):
    assert dataset.records("train") == 7 and dataset.records("test") == 3
    assert dataset.manifest.rows_written == 10
    assert [path.rsplit("/", 1)[1] for path in dataset.shard_paths("test")] == [
        "tiny-test.tfrecord-00000-of-00002",
        "tiny-test.tfrecord-00001-of-00002",
    ]


def test_equal_content_has_an_equal_digest_and_other_content_another(dataset, tmp_path):
    rows = [{"x": float(i), "y": i % 2} for i in range(10)]
    same = write_dataset(tmp_path / "2.0.0", SCHEMA, {"train": rows[:7], "test": rows[7:]})
    other = write_dataset(tmp_path / "3.0.0", SCHEMA, {"train": rows[:6], "test": rows[7:]})
    assert same.manifest.digest == dataset.manifest.digest != other.manifest.digest


def test_statistics_that_are_none_are_named(dataset):
    republish(dataset.directory, {manifest_lib.STATISTICS_FILE_NAME: b"garbage"})
    with pytest.raises(InputError, match=r"statistics.pb: received not a statistics message"):
        loading.load(manifest_lib.open_dataset(dataset.directory))


def test_a_directory_without_a_manifest_is_not_a_dataset(tmp_path):
    with pytest.raises(InputError, match=r"a directory without a manifest.*beam_jobs\.convert"):
        manifest_lib.open_dataset(tmp_path)
    with pytest.raises(InputError, match="no such directory"):
        manifest_lib.open_dataset(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"Copy it from its store to a local directory"):
        manifest_lib.open_dataset(pathlib.Path("gs://bucket/shop/1"))


def test_an_unknown_split_is_named_with_those_there_are(dataset):
    with pytest.raises(InputError, match="split 'validation'; expected one of train, test"):
        dataset.records("validation")


def test_a_truncated_or_deleted_shard_is_named(dataset):
    shard = dataset.directory / "tiny-train.tfrecord-00001-of-00002"
    size = shard.stat().st_size
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(
        InputError, match=rf"{shard.name}: received {size - 1:,} bytes; expected {size:,} bytes"
    ):
        manifest_lib.open_dataset(dataset.directory)
    shard.unlink()
    with pytest.raises(InputError, match="received no such file"):
        manifest_lib.open_dataset(dataset.directory)


def test_links_in_a_circle_are_named(dataset):
    shard = dataset.directory / "tiny-train.tfrecord-00001-of-00002"
    shard.unlink()
    shard.symlink_to(shard.name)
    with pytest.raises(InputError, match=r"tiny-train\S+: received Too many levels of symbolic links"):
        manifest_lib.open_dataset(dataset.directory)


def test_a_file_that_cannot_be_looked_at_is_tried_again(dataset, monkeypatch):
    failing = ["tiny-train.tfrecord-00001-of-00002"] * 2
    real = os.stat

    def flaky(path, **how):
        if failing and str(path).endswith(failing[-1]):
            raise OSError(errno.EIO, "Input/output error", failing.pop())
        return real(path, **how)

    monkeypatch.setattr(os, "stat", flaky)
    assert manifest_lib.open_dataset(dataset.directory).rows("train") == 7
    assert not failing


@pytest.mark.parametrize(("number", "raised"), [(errno.EIO, TryAgainError), (errno.EACCES, PermissionError)])
def test_links_that_cannot_be_looked_for_are_not_taken_for_none(dataset, monkeypatch, number, raised):
    def failing(path):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(os, "scandir", failing)
    with pytest.raises(raised):
        manifest_lib.open_dataset(dataset.directory)


def test_a_link_stays_in_the_directory(dataset, tmp_path):
    shard = dataset.directory / "tiny-train.tfrecord-00001-of-00002"
    for kept, is_inside in ((shard.with_name("kept"), True), (tmp_path / "kept", False)):
        shard.rename(kept)
        shard.symlink_to(kept)
        if is_inside:
            assert manifest_lib.open_dataset(dataset.directory).rows("train") == 7
        else:
            with pytest.raises(InputError, match=r"a file 'tiny-train\S+' outside of the directory"):
                manifest_lib.open_dataset(dataset.directory)
        kept.replace(shard)


def test_a_schema_other_than_the_one_written_with_is_refused(dataset):
    path = dataset.directory / "schema.json"
    path.write_text(path.read_text().replace('"a"', '"c"'))
    with pytest.raises(InputError, match=r"schema\.json: received SHA-256 .*; expected SHA-256 .*published"):
        manifest_lib.open_dataset(dataset.directory)


def test_statistics_with_one_flipped_bit_are_refused(dataset):
    path = dataset.directory / manifest_lib.STATISTICS_FILE_NAME
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"statistics\.pb: received SHA-256 .*; expected SHA-256"):
        loading.load(manifest_lib.open_dataset(dataset.directory))


def test_a_manifest_that_is_a_directory_is_named(tmp_path):
    (tmp_path / manifest_lib.FILE_NAME).mkdir()
    with pytest.raises(InputError, match=r"manifest\.json: received a directory"):
        manifest_lib.load(tmp_path)


def with_file(dataset: Dataset, **changes) -> Dataset:
    """The dataset, whose manifest has the right digest and another first file."""
    first, *others = dataset.manifest.files
    changed = dataclasses.replace(dataset.manifest, files=(dataclasses.replace(first, **changes), *others))
    (dataset.directory / manifest_lib.FILE_NAME).write_text(manifest_lib.dumps(changed))
    return dataset


@pytest.mark.parametrize("path", ["../schema.json", "/etc/passwd", "", "a\0b", "out/schema.json", "\ud800"])
def test_a_manifest_names_files_of_its_directory_alone(dataset, path):
    (dataset.directory / "out").symlink_to(dataset.directory.parent)
    with pytest.raises(InputError, match=r"manifest\.json: received a file .* outside of the directory"):
        manifest_lib.load(with_file(dataset, path=path).directory)


@pytest.mark.parametrize("changes", [{"bytes": "12"}, {"bytes": -1}, {"sha256": None}, {"path": 3}])
def test_a_value_of_the_wrong_type_is_unreadable_though_the_digest_is_right(dataset, changes):
    with pytest.raises(InputError, match=rf"unreadable content .*{next(iter(changes))} is"):
        manifest_lib.load(with_file(dataset, **changes).directory)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (lambda train: {"layout": "columns"}, r"\(ValueError\(\"layout 'columns'\"\)\)"),
        (lambda train: {"splits": {"train": (*train, train[0])}}, r".*00000-of-00002' is listed twice"),
        (
            lambda train: {"splits": {"train": tuple(dataclasses.replace(s, rows=1 << 62) for s in train)}},
            r".*9,223,372,036,854,775,808 rows",
        ),
    ],
)
def test_a_manifest_that_cannot_be_is_unreadable(dataset, changes, message: str):
    changed = dataclasses.replace(dataset.manifest, **changes(dataset.manifest.splits["train"]))
    (dataset.directory / manifest_lib.FILE_NAME).write_text(manifest_lib.dumps(changed))
    with pytest.raises(InputError, match=f"unreadable content {message}"):
        manifest_lib.load(dataset.directory)


@pytest.mark.parametrize("edit", [lambda d: d.pop("splits"), lambda d: d.update(rows_read=11)])
def test_an_edited_manifest_is_refused(dataset, edit):
    path = dataset.directory / manifest_lib.FILE_NAME
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match="expected the manifest as it was published"):
        manifest_lib.open_dataset(dataset.directory)


def test_a_manifest_of_another_format_is_refused_by_that(dataset):
    path = dataset.directory / manifest_lib.FILE_NAME
    path.write_text(path.read_text().replace(manifest_lib.FORMAT, "penstock.manifest/2"))
    with pytest.raises(
        InputError,
        match=r"format 'penstock\.manifest/2'; expected 'penstock\.manifest/1'.*Convert the raw data again",
    ):
        manifest_lib.open_dataset(dataset.directory)


def test_a_manifest_nested_too_deep_is_unreadable(dataset):
    (dataset.directory / manifest_lib.FILE_NAME).write_text("[" * 100_000)
    with pytest.raises(InputError, match="unreadable content"):
        manifest_lib.load(dataset.directory)


def test_a_pipe_in_place_of_the_manifest_is_not_waited_for(dataset):
    path = dataset.directory / manifest_lib.FILE_NAME
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match=r"manifest\.json: received not an ordinary file"):
        manifest_lib.open_dataset(dataset.directory)


@pytest.mark.parametrize("directory", ["/", "/data", "data", "."])
@pytest.mark.parametrize("name", ["a", "some/a", "/elsewhere/a"])
def test_paths_are_those_of_the_system(directory: str, name: str):
    path = pathlib.Path(directory)
    dataset = Dataset(directory=path, manifest=None, schema=None)
    assert dataset.path_of(name) == os.path.join(path, name)  # noqa: PTH118 - what it has to equal


def test_of_several_files_the_one_that_is_gone_is_named_with_its_digest(dataset):
    manifest, names = dataset.manifest, [file.path for file in dataset.manifest.files]
    (dataset.directory / names[1]).unlink()
    digest = manifest.digests_of_files[names[1]][:12]
    with pytest.raises(InputError, match=rf"{names[1]}: received No such file .*; expected SHA-256 {digest}"):
        manifest_lib.published_in_turn(dataset.directory, manifest, names)


def test_the_usual_splits_come_first_then_the_others_by_name():
    assert in_order(["b", "test", "a", "train"]) == ["train", "test", "a", "b"]


def test_is_read_as_it_was_written(tmp_path):
    assert records.read_conversion(tmp_path) == {}
    (tmp_path / "conversion.json").write_text(records.dumps_conversion({"seconds": 1.5}))
    assert records.read_conversion(tmp_path)["seconds"] == 1.5


def test_another_format_is_refused(tmp_path):
    document = {"format": "penstock.conversion/2", "seconds": 1.5}
    (tmp_path / "conversion.json").write_text(json.dumps(documents.with_digest(document)))
    with pytest.raises(InputError, match=r"format 'penstock\.conversion/2'"):
        records.read_conversion(tmp_path)


@pytest.mark.parametrize(
    ("was", "is_"), [("1.5", "1.7"), ("{", "["), ("digest", "digist"), ("format", "formut")]
)
def test_damage_is_named(tmp_path, was, is_):
    text = records.dumps_conversion({"seconds": 1.5}).replace(was, is_, 1)
    (tmp_path / "conversion.json").write_text(text)
    with pytest.raises(InputError, match=r"conversion\.json: received other content than was written"):
        records.read_conversion(tmp_path)
