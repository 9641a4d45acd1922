"""One suite for every registered kind: from ugly cells to what a model is fed, in both layouts."""

import collections
import datetime
import decimal
import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_jobs.cells import typed
from beam_jobs.cells.typed import arrow_schema
from beam_jobs.checks import records as records_lib
from beam_jobs.conversion import dataset
from beam_jobs.conversion.records import LAYOUTS
from beam_jobs.conversion.writer import load_images
from pipeline.base.errors import InputError
from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading import parsing
from pipeline.data.reading.parsing import parsing_spec
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import FEATURE_TYPES, Label
from pipeline.data.schema.schema import Schema
from pipeline.report import html
from pipeline.training.report.data import feature_table
from tests.conformance.feature_types.examples import EXAMPLES, Example
from tests.shared import measuring
from tests.shared.tiny_dataset import serialize

# Cells that nobody means, as text files and as typed formats give them.
UGLY = {
    "empty": pa.array([b""]),
    "blanks": pa.array([b" \t\r\n"]),
    "unicode": pa.array(["é☃\u200b\U0001f600"]),
    "not UTF-8": pa.array([b"\xff\xfe"]),
    "zero byte": pa.array([b"\0"]),
    "huge": pa.array(["1e400"]),
    "many digits": pa.array(["9" * 400]),
    "nan": pa.array(["nan"]),
    "nothing": pa.nulls(1),
    "a null": pa.array([None], pa.int64()),
    "nan number": pa.array([math.nan]),
    "infinity": pa.array([-math.inf]),
    "largest integer": pa.array([(1 << 64) - 1], pa.uint64()),
    "boolean": pa.array([True]),
    "decimal": pa.array([decimal.Decimal("12345678901234567890.5")]),
    "date": pa.array([datetime.date(1969, 12, 31)]),
    "empty list": pa.array([[]], pa.list_(pa.int64())),
    "list": pa.array([[1, None, 3]]),
    "list of lists": pa.array([[[1], [2, 3]]]),
    "list of text": pa.array([["a", "b"]]),
    "structure": pa.array([{"a": 1}]),
}

each = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)


def schema_of(example: Example) -> Schema:
    return Schema(name="one", features=(example.feature,))


def typed_rows(example: Example, cells: pa.Array) -> tuple[pa.RecordBatch, list[str]]:
    """Rows of those `cells` that conform, ready to be written, and what is wrong with the others."""
    schema = schema_of(example)
    column = typed.parse(example.feature, cells)
    order = pa.array(np.arange(len(cells)), pa.uint64())
    rows = pa.record_batch([order, column.values], schema=arrow_schema(schema))
    good = [row for row in range(len(cells)) if row not in column.problems]
    rows, rejected = load_images(rows.take(pa.array(good, pa.int64())), schema, root="")
    return rows, [*column.problems.values(), *(rejection.reason for rejection in rejected)]


def good_rows(example: Example) -> pa.RecordBatch:
    return typed_rows(example, pa.array([as_bytes(cell) for cell, _ in example.good]))[0]


def as_bytes(cell: object) -> object:
    """Text as bytes, also in a list; else the same."""
    if isinstance(cell, list):
        return [as_bytes(each) for each in cell]
    return cell.encode() if isinstance(cell, str) else cell


def records(example: Example, rows: pa.RecordBatch, layout: str) -> list[bytes]:
    return [record for part in LAYOUTS[layout]([rows], schema_of(example)) for record in part.to_pylist()]


def layouts(example: Example) -> Sequence[str]:
    return ("rows", "blocks") if example.in_blocks else ("rows",)


def parsed(example: Example, rows: pa.RecordBatch, layout: str) -> dict[str, tf.Tensor]:
    """Features as training reads them; of a block only the rows that count."""
    schema, written = schema_of(example), tf.constant(records(example, rows, layout), tf.string)
    if layout == "rows":
        return tf.io.parse_example(written, parsing_spec(schema))
    words = parsing.words_of_blocks(written, schema)[: rows.num_rows]
    return parsing.features_of_words(words, schema)


def measured(example: Example) -> SplitStatistics:
    """Statistics of the good rows, each gathered by a worker of its own."""
    rows = good_rows(example)
    single = (rows.slice(number, 1) for number in reversed(range(rows.num_rows)))
    return measuring.measured(schema_of(example), *single)


def test_every_kind_has_an_example():
    assert {type(example.feature) for example in EXAMPLES} == set(FEATURE_TYPES.values())


@each
def test_good_cells_become_values_and_bad_ones_are_named(example):
    cells = [cell for cell, _ in (*example.good, *example.bad)]
    column = typed.parse(example.feature, pa.array([as_bytes(cell) for cell in cells]))
    assert column.problems == {len(example.good) + i: reason for i, (_, reason) in enumerate(example.bad)}
    assert column.values.type == typed.arrow_type(example.feature)


@each
@pytest.mark.parametrize("ugly", UGLY)
def test_an_ugly_cell_is_a_problem_or_a_value_that_conforms(example, ugly):
    rows, problems = typed_rows(example, UGLY[ugly])
    assert all(problems)
    assert rows.num_rows + len(problems) == 1
    for layout in layouts(example):
        written = records(example, rows, layout)
        assert records_lib.LAYOUTS[layout].problems(written, schema_of(example)) == {}


@each
def test_values_are_read_from_both_layouts_as_they_were_typed(example):
    rows = good_rows(example)
    for layout in layouts(example):
        raw = parsed(example, rows, layout)
        if layout == "blocks":
            raw = parsing.raw_of_compact(raw, schema_of(example))
        tensor = raw[example.name].numpy()
        assert tensor.shape == (len(example.good), *example.feature.shape)
        expected = [as_bytes(value) for value in example.stored()]
        np.testing.assert_array_equal(tensor, np.array(expected, tensor.dtype).reshape(tensor.shape))


@each
def test_blocks_take_it_or_say_what_to_do(example):
    if example.in_blocks:
        assert len(records(example, good_rows(example), "blocks")) == 1
        return
    with pytest.raises(InputError, match=f"feature '{example.name}': .*use --layout=rows|Use --layout=rows"):
        records(example, good_rows(example), "blocks")


def names_in(example: Example, values: Sequence[object]) -> list[str]:
    """What statistics count of typed values."""
    classes = getattr(example.feature, "classes", ())
    if not example.feature.shape:
        return [classes[value] if classes else str(value) for value in values]
    if classes:
        return [name for value in values for name, is_there in zip(classes, value, strict=True) if is_there]
    return [item for value in values for item in value if item]


@each
def test_statistics_are_those_of_numpy(example):
    statistics = measured(example).features[example.name]
    values = [value for _, value in example.good if value is not None]
    assert (statistics.present, statistics.missing) == (len(values), len(example.good) - len(values))
    if example.counts == "numbers":
        numbers, numeric = np.array(values, np.float64).reshape(-1), statistics.numeric
        found = (numeric.minimum, numeric.maximum, numeric.mean, numeric.std, numeric.quantiles[16])
        expected = (numbers.min(), numbers.max(), numbers.mean(), numbers.std(), np.median(numbers))
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert numeric.zeros == np.count_nonzero(numbers == 0)
    if example.counts == "values":
        assert dict(statistics.values.values) == collections.Counter(names_in(example, values))
    if example.counts == "lengths":
        assert statistics.mean_length == np.mean([len(as_bytes(value)) for value in values])


@each
def test_a_schema_file_brings_it_back(example, tmp_path):
    schema = schema_of(example)
    schema_lib.save(schema, tmp_path / "schema.json")
    assert schema_lib.load(tmp_path / "schema.json") == schema


@each
def test_metadata_describe_it(example):
    import tensorflow_datasets as tfds

    schema = schema_of(example)
    [described] = text_format.Parse(dataset.schema_proto(schema), schema_pb2.Schema()).feature
    assert described.name == example.name
    assert tuple(dim.size for dim in described.shape.dim) == example.feature.shape
    domain = described.WhichOneof("domain_info") or ""
    told = [domain, "{", *str(getattr(described, domain)).split(), "}"] if domain else []
    assert " ".join(told) == example.proto
    feature = dataset._tfds_features(schema, "rows")[example.name]
    assert type(feature) is getattr(tfds.features, example.tfds)


@each
def test_own_records_conform(example):
    for layout in layouts(example):
        written = records(example, good_rows(example), layout)
        assert records_lib.LAYOUTS[layout].problems(written, schema_of(example)) == {}


@pytest.mark.parametrize(
    "example",
    [example for example in EXAMPLES if example.wrong is not None],
    ids=lambda example: example.name,
)
def test_a_wrong_value_in_a_record_is_found(example):
    schema = schema_of(example)
    found = records_lib.LAYOUTS["rows"].problems([serialize(schema, {example.name: example.wrong})], schema)
    assert found[0].startswith(f"feature '{example.name}' is ")


@each
def test_a_model_gets_the_same_from_both_layouts(example):
    schema = schema_of(example)
    preprocess, rows = Preprocess(schema, measured(example)), good_rows(example)
    fed = {layout: preprocess(parsed(example, rows, layout)) for layout in layouts(example)}
    sizes = preprocess.inputs
    shapes = {
        **({"numeric": (sizes.numeric,)} if sizes.numeric else {}),
        **({"categories": (len(sizes.cardinalities),)} if sizes.cardinalities else {}),
        **{name: (length,) for name, (length, _) in sizes.sequences.items()},
        **({"image": sizes.image_shape} if sizes.image_shape else {}),
    }
    assert bool(shapes) != isinstance(example.feature, Label)
    for inputs in fed.values():
        assert {name: tensor.shape[1:] for name, tensor in inputs.items()} == shapes
        for name, tensor in inputs.items():
            np.testing.assert_array_equal(tensor, fed["rows"][name])


@each
def test_the_report_names_it(example):
    page = html.blocks([feature_table(measured(example), schema_of(example))])
    assert example.name in page
    kind = "predicted" if isinstance(example.feature, Label) else example.feature.kind
    assert example.name == kind or f"{kind} · " in page
