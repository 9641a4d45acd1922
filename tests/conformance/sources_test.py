"""Holds for every raw format: whatever the input splits, each row is read once and knows its origin.

A new format is one entry of `formats.FORMATS` and one of `samples.SAMPLES`; `key_value` below is an example.
"""

import collections
import dataclasses
import gzip
import pathlib
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_jobs.sources import files, lines
from beam_jobs.sources.formats import FORMATS, Format, Option, format_of, open_source
from beam_jobs.sources.source import Input, InputSplit, Origin, RawRows, Rejection, Source
from pipeline.base.errors import InputError
from tests.conformance.source_samples import SAMPLES, Sample

UGLY_NAMES = ("a b", "tab\there", "größe-数", "new\nline", "x[1]*?", "a=b", "%20", "back\\slash", "'\"")


@dataclasses.dataclass(frozen=True, kw_only=True)
class KeyValueFiles:
    """A format that is made up here: lines such as `number=3`."""

    sign: str = "="
    split_bytes: int = files.SPLIT_BYTES

    def input_splits(self, inputs: Iterable[Input]) -> list[InputSplit]:
        return lines.input_splits(inputs, split_bytes=self.split_bytes)

    def read(self, input_split: InputSplit) -> Iterator[RawRows]:
        cells, numbers, rejected, number = [], [], [], 0
        for number, line in enumerate(lines.read(input_split), 1):
            key, sign, value = line.partition(self.sign.encode())
            if key == b"number" and sign:
                cells.append(value)
                numbers.append(number)
            else:
                rejected.append(Rejection(source=input_split.name, row=number, reason="no number"))
        yield RawRows(
            columns=pa.record_batch({"number": pa.array(cells, pa.binary())}),
            sources=input_split.name,
            numbers=np.array(numbers, np.int64),
            rejected=tuple(rejected),
            lines=number,
            undecoded=True,
        )


def write_key_values(path: pathlib.Path, numbers: Sequence[int], *, broken: int | None = None) -> str:
    path.write_text("".join(f"number={n}\n" if n != broken else "nothing\n" for n in numbers))
    return str(path)


MADE_UP = Format(
    source=KeyValueFiles,
    endings=(".keyvalue",),
    options=(Option(flag="sign", field="sign", default="=", help="CHARACTER: between key and value."),),
)
MADE_UP_SAMPLE = Sample(
    write=write_key_values,
    number=lambda row: int(row["number"]),
    cuts=({"split_bytes": 1}, {"split_bytes": 50}),
    gzip=".keyvalue.gz",
    write_broken=lambda path, numbers: write_key_values(path, numbers, broken=numbers[-2]),
)
ALL_FORMATS = {**FORMATS, "key_value": MADE_UP}
ALL_SAMPLES = {**SAMPLES, "key_value": MADE_UP_SAMPLE}


def lacking(formats: Mapping[str, Format], samples: Mapping[str, Sample]) -> Iterator[str]:
    """What a registered format still needs, a line each."""
    for name, known in formats.items():
        if name not in samples:
            yield f"{name} has no sample: add one to tests/conformance/source_samples.py"
        fields = {field.name: field for field in dataclasses.fields(known.source)}
        for option in known.options:
            if option.field not in fields:
                yield f"{name}: --{option.flag} sets '{option.field}', which {known.source.__name__} has not"
            elif fields[option.field].default != option.parse(option.default):
                yield f"{name}: --{option.flag} has another default than the field '{option.field}'"


def opened(name: str, **fields: int) -> Source:
    source = ALL_FORMATS[name].source(**ALL_SAMPLES[name].fields)
    return dataclasses.replace(source, **fields)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """A row as it was read."""

    number: int
    origin: Origin
    id: object
    cells: Mapping[str, Any]


def rows_of(name: str, read: Iterable[RawRows]) -> list[Row]:
    return [
        Row(
            number=ALL_SAMPLES[name].number(cells),
            origin=raw.origin(position),
            id=None if raw.ids is None else raw.ids[position].as_py(),
            cells=cells,
        )
        for raw in read
        for position, cells in enumerate(raw.columns.to_pylist())
    ]


def read_all(name: str, source: Source, input_splits: Iterable[InputSplit]) -> list[Row]:
    """The rows of `input_splits` that follow each other, numbered as in their file."""
    rows: list[Row] = []
    before = collections.Counter[str]()  # lines of a file in earlier input splits
    for input_split in input_splits:
        read = list(source.read(input_split))
        file = input_split.file_names[0]
        for row in rows_of(name, read):
            number = row.origin.row and row.origin.row + before[file]
            origin = Origin(row.origin.file.partition(" from byte ")[0], number)
            rows.append(dataclasses.replace(row, origin=origin))
        before[file] += max((raw.lines for raw in read), default=0)
    return rows


@pytest.fixture(params=ALL_FORMATS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def sample(name: str) -> Sample:
    return ALL_SAMPLES[name]


def test_every_format_has_what_it_needs():
    assert list(lacking(ALL_FORMATS, ALL_SAMPLES)) == []


def test_what_a_new_format_lacks_is_listed():
    wrong = Option(flag="to", field="nowhere", default="", help="")
    other = Option(flag="sign", field="sign", default=":", help="")
    new = {"new": dataclasses.replace(MADE_UP, options=(wrong, other))}
    assert list(lacking(new, SAMPLES)) == [
        "new has no sample: add one to tests/conformance/source_samples.py",
        "new: --to sets 'nowhere', which KeyValueFiles has not",
        "new: --sign has another default than the field 'sign'",
    ]


def test_a_location_tells_its_format(name: str):
    known = ALL_FORMATS[name]
    said = [f"data/x{ending}" for ending in known.endings] + [f"{known.prefix}x"] * bool(known.prefix)
    said += [f"data/X{ending.upper()}" for ending in known.endings]
    assert [format_of([Input(location=each)], ALL_FORMATS) for each in said] == [name] * len(said)


def test_what_no_source_unpacks_is_to_be_unpacked(tmp_path: pathlib.Path):
    (tmp_path / "data.csv.xz").touch()
    with pytest.raises(InputError, match=r"Unpack .*data\.csv\.xz first; files .* end in \.gz, \.bz2, \.zst"):
        format_of([Input(location=str(tmp_path / "data.csv.xz"))])


def test_the_files_of_a_folder_tell_their_format(tmp_path: pathlib.Path):
    for name in ("2024 (1).csv", "2024-02.csv.gz", "2024-03.tsv", ".hidden.txt"):
        (tmp_path / name).touch()
    assert format_of([Input(location=str(tmp_path)), Input(location="x.csv")]) == "csv"
    assert format_of([Input(location=f"{tmp_path}/2024*1?.csv")]) == "csv"
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match=r"--format: received nothing.*other kinds.*notes.txt.*/\*\.csv'"):
        format_of([Input(location=str(tmp_path))])


def test_folders_of_images_are_told_their_format(tmp_path: pathlib.Path):
    for name in ("cats/1.png", "dogs/2.JPG"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    with pytest.raises(InputError, match="These are images: give --format=images"):
        format_of([Input(location=str(tmp_path))])


def test_folders_of_sound_get_no_advice_to_give_a_format(tmp_path: pathlib.Path):
    (tmp_path / "1.wav").touch()
    with pytest.raises(InputError, match="No format reads audio"):
        format_of([Input(location=str(tmp_path))])


def test_the_flags_of_a_format_reach_its_source():
    assert open_source("csv", {"delimiter": "\\t", "column_names": ["a", "b"]}) == open_source(
        "csv", {"delimiter": "\t", "column_names": ("a", "b"), "text_unit": "document"}
    )
    assert open_source("text", {"text_unit": "document"}).unit == "document"


def test_every_row_is_read_once_and_knows_its_origin(name: str, sample: Sample, tmp_path: pathlib.Path):
    location = sample.write(tmp_path / "data", range(sample.rows))
    source = opened(name)
    rows = read_all(name, source, source.input_splits([Input(location=location)]))
    assert [row.number for row in rows] == list(range(sample.rows))
    assert [row.origin for row in rows] == [sample.origin(location, row.number) for row in rows]


def test_cutting_changes_no_row(name: str, sample: Sample, tmp_path: pathlib.Path):
    location = sample.write(tmp_path / "data", range(sample.rows))
    source = opened(name)
    whole = read_all(name, source, source.input_splits([Input(location=location)]))
    for cut in sample.cuts:
        source = opened(name, **cut)
        rows = read_all(name, source, source.input_splits([Input(location=location)]))
        assert [row.origin for row in rows] == [row.origin for row in whole], cut
        assert [(row.id, row.cells) for row in rows] == [(row.id, row.cells) for row in whole], cut


def test_input_splits_read_elsewhere_twice_in_any_order_give_the_same(
    name: str, sample: Sample, tmp_path: pathlib.Path
):
    location = sample.write(tmp_path / "data", range(sample.rows))
    source = opened(name, **dict(sample.cuts[-1] if sample.cuts else {}))
    input_splits = source.input_splits([Input(location=location)])
    in_turn = [read_all(name, source, [input_split]) for input_split in input_splits]
    for _ in range(2):
        sent, arrived = pickle.loads(pickle.dumps((source, input_splits)))
        backwards = [read_all(name, sent, [input_split]) for input_split in reversed(arrived)]
        assert backwards[::-1] == in_turn


def test_input_splits_have_a_size_and_the_split_that_was_given(
    name: str, sample: Sample, tmp_path: pathlib.Path
):
    location = sample.write(tmp_path / "data", range(sample.rows))
    for cut in ({}, *sample.cuts):
        input_splits = opened(name, **cut).input_splits([Input(location=location, split="extra")])
        assert {input_split.split for input_split in input_splits} == {"extra"}
        assert all(input_split.bytes > 0 for input_split in input_splits)
        if (tmp_path / "data").is_file():
            assert (
                sum(input_split.bytes for input_split in input_splits) == (tmp_path / "data").stat().st_size
            )


def test_ugly_names(name: str, sample: Sample, tmp_path: pathlib.Path):
    if not sample.is_files:
        pytest.skip("not read from files")
    source = opened(name)
    for ugly in UGLY_NAMES:
        location = sample.write(tmp_path / ugly, range(2))
        rows = read_all(name, source, source.input_splits([Input(location=location)]))
        assert [row.origin for row in rows] == [sample.origin(location, number) for number in range(2)]


def test_gzip_changes_no_row(name: str, sample: Sample, tmp_path: pathlib.Path):
    if not sample.gzip:
        pytest.skip("compressed inside the format, if at all")
    whole = sample.write(tmp_path / "data", range(sample.rows))
    packed = tmp_path / f"packed{sample.gzip}"
    packed.write_bytes(gzip.compress(pathlib.Path(whole).read_bytes()))
    for cut in ({}, *sample.cuts):
        source = opened(name, **cut)
        rows = read_all(name, source, source.input_splits([Input(location=str(packed))]))
        assert [row.origin for row in rows] == [
            sample.origin(str(packed), number) for number in range(sample.rows)
        ]


def test_no_rows_are_no_error_but_an_empty_file_is(name: str, sample: Sample, tmp_path: pathlib.Path):
    if not sample.is_files:
        pytest.skip("not read from files")
    path = tmp_path / "none"
    sample.write(path, [])
    source = opened(name)
    if path.is_file() and path.stat().st_size:
        assert read_all(name, source, source.input_splits([Input(location=str(path))])) == []
    path = tmp_path / "empty" / "class" / "0"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    location = tmp_path / "empty" if name == "images" else path
    with pytest.raises(InputError, match="received 0 bytes"):
        source.input_splits([Input(location=str(location))])


def test_a_location_without_files_is_named(name: str, sample: Sample, tmp_path: pathlib.Path):
    if not sample.is_files:
        pytest.skip("not read from files")
    with pytest.raises(InputError, match=r"--input=.*nowhere: received no file there"):
        opened(name).input_splits([Input(location=str(tmp_path / "nowhere"))])


def test_a_broken_row_is_rejected_by_its_origin_and_costs_no_other(
    name: str, sample: Sample, tmp_path: pathlib.Path
):
    if not sample.write_broken:
        pytest.skip(sample.why_none_is_broken)
    location = sample.write_broken(tmp_path / "data", range(sample.rows))
    bad = sample.rows - 2
    for cut in ({}, *sample.cuts):
        source = opened(name, **cut)
        read = [
            raw
            for input_split in source.input_splits([Input(location=location)])
            for raw in source.read(input_split)
        ]
        [rejection] = [rejection for raw in read for rejection in raw.rejected]
        assert rejection.reason
        assert sum(raw.rows_read for raw in read) == sample.rows
        assert sorted(row.number for row in rows_of(name, read)) == [
            number for number in range(sample.rows) if number != bad
        ]
        if not cut:
            told = Origin(rejection.source, rejection.row)
            expected = sample.origin(location, bad)
            assert told.row == expected.row
            assert told.file.partition("/")[0] == expected.file.partition("/")[0]
