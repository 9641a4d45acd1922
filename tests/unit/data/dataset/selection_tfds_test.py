"""An expression selects the rows that TensorFlow Datasets selects, or is refused."""

import pytest
import tensorflow_datasets as tfds

from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import select
from tests.unit.data.dataset import split_expressions

REASONS = ("overlap", "ends before it begins", "no records")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return split_expressions.write(tmp_path_factory.mktemp("tfds"))


@pytest.fixture(scope="module")
def builder(dataset: Dataset) -> tfds.core.DatasetBuilder:
    return tfds.builder_from_directory(dataset.directory)


def test_the_rows_are_those_of_tfds(dataset: Dataset, builder: tfds.core.DatasetBuilder):
    checked = 0
    for expression in split_expressions.expressions():
        rows = split_expressions.selected(dataset, expression)
        if rows is not None:
            assert rows == split_expressions.rows_named_by_tfds(builder, expression), expression
            checked += 1
    assert checked >= 100


@pytest.mark.parametrize("expression", ["train[-57.3%:90%]+test", "train[:1shard] + test[-1shard:]", "all"])
def test_the_rows_are_those_that_tfds_reads(dataset, builder, expression):
    rows = split_expressions.selected(dataset, expression)
    assert rows == split_expressions.rows_read_by_tfds(builder, expression)


def test_what_tfds_takes_is_refused_only_for_a_reason(dataset: Dataset, builder: tfds.core.DatasetBuilder):
    for expression in split_expressions.expressions():
        try:
            select(dataset, expression)
        except InputError as error:
            if not any(reason in str(error) for reason in REASONS):
                with pytest.raises(Exception, match=""):
                    tfds.core.ReadInstruction.from_spec(expression).to_absolute(builder.info.splits)
