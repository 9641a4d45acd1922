"""Parts of a dataset, spelled and selected as TensorFlow Datasets does."""

import dataclasses

import pytest
import tensorflow_datasets as tfds

from pipeline.base.errors import InputError
from pipeline.data.dataset import manifest
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import select
from pipeline.data.schema.feature_types import Label
from pipeline.data.schema.schema import Schema
from tests.shared.tiny_dataset import write_dataset
from tests.unit.data.dataset import split_expressions

SIZES = {"train": 103, "validation": 20, "empty": 0}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    schema = Schema(name="s", features=(Label(name="y", classes=("no", "yes")),))
    splits = {split: [{"y": 0}] * size for split, size in SIZES.items()}
    return write_dataset(tmp_path_factory.mktemp("parts") / "1.0.0", schema, splits, shards=3)


@pytest.mark.parametrize(
    ("expression", "ranges"),
    [
        ("train", ((0, 103),)),
        ("train[:10%]", ((0, 10),)),
        ("train[10%:20%]", ((10, 21),)),
        ("train[100:]", ((100, 103),)),
        ("train[-5%:]", ((98, 103),)),
        ("train[:5]+validation", ((0, 5), (103, 123))),
        ("train[:5]+train[50:60]", ((0, 5), (50, 60))),
    ],
)
def test_rows_of_an_expression(dataset: Dataset, expression: str, ranges: tuple):
    assert select(dataset, expression).ranges == ranges


@pytest.mark.parametrize("expression", ["train[:33%]", "train[33%:66%]", "train[66%:]", "train[7:-7]"])
def test_bounds_are_those_of_tfds(dataset: Dataset, expression: str):
    info = tfds.core.SplitInfo(name="train", shard_lengths=[103], num_bytes=0)
    [part] = tfds.core.ReadInstruction.from_spec(expression).to_absolute({"train": info})
    assert select(dataset, expression).ranges == ((part.from_ or 0, 103 if part.to is None else part.to),)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("test", "received a request for split 'test'; expected one of train, validation, empty"),
        ("test[:10%]", "test"),
        ("train[:10", "expected an expression such as 'train"),
        ("empty", "received no records"),
        ("train[50:50]", "received no records"),
        ("train[:60]+train[50:]", "received parts that overlap"),
        ("train[50:40]", "received a part that ends before it begins"),
        ("all[:10%]", "expected an expression such as 'train"),
    ],
)
def test_what_selects_nothing_sensible_is_refused(dataset: Dataset, expression: str, message: str):
    with pytest.raises(InputError) as caught:
        select(dataset, expression)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ("train[:90%]", "train[90%:]", False),
        ("train[:60]", "train[50:]", True),
        ("train", "validation", False),
        ("train+validation[:10]", "validation[10:]", False),
        ("validation[:11]+train", "validation[10:]", True),
    ],
)
def test_whether_a_row_is_in_both(dataset: Dataset, one: str, other: str, shared: bool):
    assert select(dataset, one).shares_rows(select(dataset, other)) == shared


def test_a_record_is_left_out(dataset: Dataset):
    assert select(dataset, "train[:10]").without([0, 4, 50]).ranges == ((1, 4), (5, 10))


def test_blocks_of_another_size_than_the_schema_tells_are_refused(tmp_path):
    schema = Schema(name="s", features=(Label(name="y", classes=("no", "yes")),))
    rows = write_dataset(tmp_path / "1.0.0", schema, {"train": [{"y": 0}] * 2})  # a row, a record a shard
    path = rows.directory / manifest.FILE_NAME
    path.write_text(manifest.dumps(dataclasses.replace(rows.manifest, layout="blocks")))
    with pytest.raises(InputError, match=r"blocks of \d+ to \d+ bytes; expected .* each"):
        select(manifest.open_dataset(rows.directory), "train")


# An expression selects the rows that TensorFlow Datasets selects, or is refused.
REASONS = ("overlap", "ends before it begins", "no records")


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return split_expressions.write(tmp_path_factory.mktemp("tfds"))


@pytest.fixture(scope="module")
def builder(numbered: Dataset) -> tfds.core.DatasetBuilder:
    return tfds.builder_from_directory(numbered.directory)


def test_the_rows_are_those_of_tfds(numbered: Dataset, builder: tfds.core.DatasetBuilder):
    checked = 0
    for expression in split_expressions.expressions():
        rows = split_expressions.selected(numbered, expression)
        if rows is not None:
            assert rows == split_expressions.rows_named_by_tfds(builder, expression), expression
            checked += 1
    assert checked >= 100


@pytest.mark.parametrize("expression", ["train[-57.3%:90%]+test", "train[:1shard] + test[-1shard:]", "all"])
def test_the_rows_are_those_that_tfds_reads(numbered, builder, expression):
    rows = split_expressions.selected(numbered, expression)
    assert rows == split_expressions.rows_read_by_tfds(builder, expression)


def test_what_tfds_takes_is_refused_only_for_a_reason(numbered: Dataset, builder: tfds.core.DatasetBuilder):
    for expression in split_expressions.expressions():
        try:
            select(numbered, expression)
        except InputError as error:
            if not any(reason in str(error) for reason in REASONS):
                with pytest.raises(Exception, match=""):
                    tfds.core.ReadInstruction.from_spec(expression).to_absolute(builder.info.splits)
