"""Where each row came from, held against the raw files as csv, json and other libraries read them."""

import csv
import dataclasses
import io
import itertools
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping

import fastavro
import numpy as np
import pyarrow.parquet
import pytest
import tensorflow as tf

from beam_jobs.checks.dataset import verify
from beam_jobs.sources.formats import open_source
from beam_jobs.sources.tokens import TokenRows
from pipeline.base.errors import InputError
from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.dataset.blocks import geometry, row_dtype
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.origins import reader
from pipeline.data.origins.files import Origin
from pipeline.data.origins.reader import raw_rows
from pipeline.data.preprocessing.tokenizers import open_tokenizer
from pipeline.data.schema.feature_types import Image, Label, Numeric, Tokens
from pipeline.data.schema.schema import Schema
from tests.conformance.source_samples import SAMPLES
from tests.shared.conversions import converted
from tests.shared.fixtures.raw_data import encoded, fruit_pixels

NUMBERS = Schema(
    name="numbers", features=(Numeric(name="number", number="int64"),), ignore={"note": "", "at.note": ""}
)
EACH = 15  # rows of a file
UGLY = ("größe 1.csv", "b, c.csv", "new\nline.csv", "from byte 7.csv")
TWO_PROCESSES = ("--direct_num_workers=2", "--direct_running_mode=multi_processing")


def rows(dataset: Dataset) -> Iterator[tuple[str, int, Mapping[str, np.ndarray]]]:
    """Shard, number and values of each row, by TensorFlow's own reader."""
    for shard in (shard for shards in dataset.manifest.splits.values() for shard in shards):
        records = tf.data.TFRecordDataset(str(dataset.directory / shard.path)).as_numpy_iterator()
        values = (_values(tf.train.Example.FromString(record)) for record in records)
        if dataset.manifest.layout == "rows":
            yield from ((shard.path, number, value) for number, value in enumerate(values))
        else:
            dtype = row_dtype(dataset.schema)
            blocks = [np.frombuffer(v["rows"][0], dtype)[: int(v["count"][0])] for v in values]
            for number, row in enumerate(row for block in blocks for row in block):
                yield shard.path, number, {name: np.atleast_1d(row[name]) for name in dtype.names}


def _values(example: tf.train.Example) -> dict[str, np.ndarray]:
    features = example.features.feature
    return {name: getattr(value, value.WhichOneof("kind")).value for name, value in features.items()}


def numbers_and_origins(dataset: Dataset) -> dict[int, Origin]:
    origins = reader.origins_of(dataset)
    found: dict[int, Origin] = {}
    for shard, of_shard in itertools.groupby(rows(dataset), key=lambda row: row[0]):
        numbers = [int(row["number"][0]) for _, _, row in of_shard]
        found |= zip(numbers, origins.of_rows(shard, np.arange(len(numbers))), strict=True)
    assert len(found) == dataset.manifest.rows_written
    return found


def line(path: pathlib.Path, number: int) -> bytes:
    return path.read_bytes().split(b"\n")[number - 1]


def csv_number(path: pathlib.Path, number: int) -> int:
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        begins = {}
        while True:
            first = rows.line_num + 1
            if (row := next(rows, None)) is None:
                return int(begins[number][0])
            begins[first] = row


def _avro(path: pathlib.Path, number: int) -> int:
    with path.open("rb") as file:
        return list(fastavro.reader(file))[number - 1]["number"]


def _tfrecord(path: pathlib.Path, number: int) -> int:
    record = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())[number - 1]
    return tf.train.Example.FromString(record).features.feature["number"].int64_list.value[0]


# The number in a row of a file, as another library reads it.
NUMBER_IN: Mapping[str, Callable[[pathlib.Path, int], int]] = {
    "csv": csv_number,
    "jsonl": lambda path, number: json.loads(line(path, number))["number"],
    "parquet": lambda path, number: pyarrow.parquet.read_table(path)["number"][number - 1].as_py(),
    "avro": _avro,
    "tfrecord": _tfrecord,
}


# The same of the text of a row.
NUMBER_OF: Mapping[str, Callable[[str], int]] = {
    "csv": lambda text: int(next(csv.reader(io.StringIO(text, newline="")))[0]),
    "jsonl": lambda text: json.loads(text)["number"],
}


@pytest.mark.parametrize(
    ("layout", "raw_format"),
    [
        ("rows", "csv"),
        ("blocks", "csv"),
        *(pytest.param("rows", name, marks=pytest.mark.slow) for name in NUMBER_IN if name != "csv"),
    ],
)
def test_the_raw_row_at_the_stated_place_is_the_record(tmp_path: pathlib.Path, raw_format: str, layout: str):
    (tmp_path / "raw").mkdir()
    for first, name in enumerate(UGLY):
        SAMPLES[raw_format].write(tmp_path / "raw" / name, range(EACH * first, EACH * first + EACH))
    source = dataclasses.replace(open_source(raw_format), **dict(*SAMPLES[raw_format].cuts[-1:]))
    dataset = converted(str(tmp_path / "raw"), tmp_path / "out", source=source, schema=NUMBERS, layout=layout)
    found = numbers_and_origins(dataset)
    assert sorted(found) == list(range(4 * EACH))
    root = pathlib.Path(reader.origins_of(dataset).folder.root)
    for number, origin in found.items():
        assert NUMBER_IN[raw_format](root / origin.file, origin.row) == number
    for shard, ordinal, row in rows(dataset):
        [raw] = raw_rows(dataset, [(shard, ordinal)])
        assert raw.origin == found[int(row["number"][0])]
        assert (raw.text is not None) == raw.is_line == (raw_format in NUMBER_OF)
        assert raw.text is None or NUMBER_OF[raw_format](raw.text) == int(row["number"][0])
    assert not verify(dataset.directory).problems


@pytest.mark.slow
def test_csv_of_all_that_may_stand_in_it(tmp_path: pathlib.Path):
    random = np.random.default_rng(0)
    for trial in range(3):
        text, number = io.StringIO(), 0
        end = ("\n", "\r\n", "\r")[trial]
        text.write(f'number,"no{end}te"{end}')
        while number < 60:
            kind = random.integers(0, 5)
            if kind == 0:
                text.write(end * int(random.integers(1, 4)))
            elif kind == 1:
                text.write(f'{number},"a{end}{end}""b"", c{end}"{end}')
            else:
                text.write(f'{number},"x"{end}' if kind == 2 else f"{number},{end}")
            number += kind > 0
        path = tmp_path / f"{trial}.csv"
        path.write_bytes(text.getvalue().encode())
        schema = dataclasses.replace(NUMBERS, ignore={f"no{end}te": ""})
        source = dataclasses.replace(open_source("csv"), split_bytes=200, block_bytes=60)
        found = numbers_and_origins(
            converted(str(path), tmp_path / f"out{trial}", source=source, schema=schema)
        )
        assert sorted(found) == list(range(60))
        lines = path.read_bytes().decode().replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for wanted, origin in found.items():
            assert lines[origin.row - 1].startswith(f"{wanted},"), (end, wanted, origin)


def test_a_file_of_images(tmp_path: pathlib.Path):
    for number in range(30):
        path = tmp_path / "raw" / ("apple", "pe\nar")[number % 2] / f"{number} é.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(fruit_pixels(number)))
    schema = Schema(
        name="fruit",
        features=(
            Image(name="image", height=4, width=6, channels=3, encoding="png"),
            Label(name="label", classes=("apple", "pe\nar")),
        ),
    )
    source = dataclasses.replace(open_source("images"), files_in_split=7)
    dataset = converted(str(tmp_path / "raw"), tmp_path / "out", source=source, schema=schema)
    origins = reader.origins_of(dataset)
    found = {origins.of(shard, ordinal): row["image"][0] for shard, ordinal, row in rows(dataset)}
    assert len(found) == 30
    assert all(
        (pathlib.Path(origins.folder.root) / at.file).read_bytes() == image for at, image in found.items()
    )
    assert {at.row for at in found} == {None}


@pytest.mark.parametrize(
    ("unit", "packing"),
    [
        ("line", "packed"),
        pytest.param("line", "document", marks=pytest.mark.slow),
        pytest.param("document", "packed", marks=pytest.mark.slow),
    ],
)
def test_the_text_with_which_a_row_of_tokens_begins(tmp_path: pathlib.Path, unit: str, packing: str):
    (tmp_path / "raw").mkdir()
    for number in range(6):
        lines = [f"text {number} {'x' * (7 * row % 60)} {row}" if row % 5 else "" for row in range(50)]
        (tmp_path / "raw" / f"{number}.txt").write_text("\n".join(lines))
    text = dataclasses.replace(open_source("text"), unit=unit, split_bytes=500)
    source = TokenRows(
        source=text, column="text", tokenizer=open_tokenizer("bytes"), length=32, packing=packing
    )
    schema = Schema(
        name="tokens",
        features=(
            Tokens(name="tokens", length=32, vocabulary_size=259),
            Tokens(name="segments", length=32, vocabulary_size=33),
        ),
    )
    dataset = converted(str(tmp_path / "raw"), tmp_path / "out", source=source, schema=schema)
    origins = reader.origins_of(dataset)
    for shard, ordinal, row in rows(dataset):
        origin = origins.of(shard, ordinal)
        path = pathlib.Path(origins.folder.root) / origin.file
        raw = line(path, origin.row) if unit == "line" else path.read_bytes()
        segment = np.array(row["segments"]) == 1
        begun = bytes(token - 3 for token in np.array(row["tokens"])[segment] if token >= 3)
        assert begun in raw, origin


@pytest.mark.slow
def test_the_digest_depends_neither_on_paths_nor_on_origins(tmp_path: pathlib.Path):
    outputs = {}
    for folder, origins, flags in (
        ("a", True, ()),
        ("a", True, TWO_PROCESSES),
        ("other", True, ()),
        ("a", False, ()),
    ):
        raw = tmp_path / folder / "raw"
        raw.mkdir(parents=True, exist_ok=True)
        for number in range(3):
            SAMPLES["csv"].write(raw / f"{number}{folder}.csv", range(50 * number, 50 * number + 50))
        output = tmp_path / f"out{len(outputs)}" / "numbers" / "1.0.0"
        source = dataclasses.replace(open_source("csv"), split_bytes=300)
        dataset = converted(str(raw), output, source=source, schema=NUMBERS, origins=origins, flags=flags)
        outputs[len(outputs)] = dataset
    contents = [_contents(dataset.directory) for dataset in outputs.values()]
    assert contents[0] == contents[1]
    assert [name for name in contents[0] if name.startswith("origins/")]
    assert not [name for name in contents[3] if name.startswith("origins/")]
    without = [{name: c for name, c in each.items() if not name.startswith("origins/")} for each in contents]
    assert without[0] == without[1] == without[2] == without[3]
    assert len({dataset.manifest.digest for dataset in outputs.values()}) == 1
    assert reader.origins_of(outputs[3]) is None


def _contents(directory: pathlib.Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != "conversion.json")
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def test_a_rejected_row_is_told_by_its_line_in_the_file(tmp_path: pathlib.Path):
    lines = [b"number,note"]
    for number in range(200):
        lines.append(b"%d,too,many" % number if number % 50 == 49 else b'%d,"two\nlines"' % number)
        if number == 120:
            lines.append(b"six,")
    path = tmp_path / "numbers.csv"
    path.write_bytes(b"\n".join(lines))
    source = dataclasses.replace(open_source("csv"), split_bytes=300)
    dataset = converted(str(path), tmp_path / "out", source=source, schema=NUMBERS, rejected=0.1)
    listed = map(json.loads, (dataset.directory / "rejected" / "rejected.jsonl").read_text().splitlines())
    for row in (listed := list(listed)):
        assert row["source"] == "numbers.csv"
        assert line(path, row["row"]).decode() in (row["raw"], f"{row['raw']},")
    assert len(listed) == 5


def test_rows_that_are_twice_in_the_raw_data_have_each_their_own_origin(tmp_path: pathlib.Path):
    path = tmp_path / "numbers.csv"
    path.write_bytes(b"number,note\n" + b"7,\n8,\n" * 30)
    for name, cut in (("whole", {}), ("cut", {"split_bytes": 20})):
        source = dataclasses.replace(open_source("csv"), **cut)
        dataset = converted(str(path), tmp_path / name, source=source, schema=NUMBERS)
        origins = reader.origins_of(dataset)
        found = [(int(row["number"][0]), origins.of(shard, n).row) for shard, n, row in rows(dataset)]
        assert sorted(found) == sorted((7 + row % 2, 2 + row) for row in range(60))
        in_order = [row for number, row in found if number == 7]
        assert in_order == sorted(in_order)


def test_verify_tells_damaged_origins_and_reading_goes_on(tmp_path: pathlib.Path):
    path = tmp_path / "numbers.csv"
    SAMPLES["csv"].write(path, range(40))
    dataset = converted(str(path), tmp_path / "out", source=open_source("csv"), schema=NUMBERS)
    shard = dataset.manifest.splits["train"][0].path
    damaged = dataset.directory / reader.file_name(shard)
    damaged.write_bytes(damaged.read_bytes()[:-1])
    [problem] = verify(dataset.directory).problems
    assert problem.file == reader.file_name(shard)
    assert len(list(rows(manifest_lib.open_dataset(dataset.directory)))) == 40
    with pytest.raises(InputError, match=f"{problem.file}: received .* bytes"):
        reader.origins_of(dataset).check(shard)


def test_rows_in_blocks_are_counted_through_the_shard(tmp_path: pathlib.Path):
    path = tmp_path / "numbers.csv"
    path.write_text("number,note\n" + "".join(f"{number},\n" for number in range(4000)))
    dataset = converted(
        str(path),
        tmp_path / "out",
        source=open_source("csv"),
        schema=NUMBERS,
        layout="blocks",
        shard_bytes=1 << 20,
    )
    [train] = dataset.manifest.splits["train"]
    assert train.rows > 2 * geometry(dataset.schema).rows
    for number, origin in numbers_and_origins(dataset).items():
        assert origin == Origin("numbers.csv", 2 + number)
