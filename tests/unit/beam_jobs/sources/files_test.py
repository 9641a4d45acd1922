"""Which files a location names, and the columns that their folders give."""

import errno
import io
import json
import os
import pathlib
import re
import urllib.parse
from collections.abc import Callable, Sequence

import fastavro
import pyarrow as pa
import pyarrow.parquet
import pytest

from beam_jobs.checks.dataset import verify
from beam_jobs.schema.proposal import propose_from
from beam_jobs.sources import files, flags
from beam_jobs.sources.csv import CsvFiles
from beam_jobs.sources.files import WithPartitions, parse_input
from beam_jobs.sources.formats import open_source
from beam_jobs.sources.source import Input
from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import TRAIN
from pipeline.data.origins.reader import raw_rows
from pipeline.data.schema.feature_types import Categorical, Datetime, Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading
from tests.shared.conversions import converted


def named(location: pathlib.Path | str, *, deep: bool = False) -> list[str]:
    found = files.list_files(Input(location=str(location)), deep=deep)
    return [pathlib.PurePath(file.path).name for file in found]


@pytest.fixture
def directory(tmp_path: pathlib.Path) -> pathlib.Path:
    """Files in a directory, in a folder of it, hidden, and those that systems leave there."""
    for name in (
        *("b.csv", "a.csv", "x[1].csv", "x1.csv", "back\\slash.csv", ".hidden", "Thumbs.db", "_SUCCESS"),
        *("deep/c.csv", ".h/d.csv", "__MACOSX/a.csv"),
    ):
        path = tmp_path / "data[1]*" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return tmp_path / "data[1]*"


def test_a_directory_stands_for_the_files_in_it(directory: pathlib.Path):
    here = ["a.csv", "b.csv", "back\\slash.csv", "x1.csv", "x[1].csv"]
    assert named(directory) == named(f"{directory}/") == here
    assert named(directory, deep=True) == [*here[:3], "c.csv", *here[3:]]


def test_a_file_of_exactly_that_name_comes_before_a_glob(directory: pathlib.Path):
    assert named(directory / "x[1].csv") == ["x[1].csv"]


def test_a_glob_matches_no_hidden_file(directory: pathlib.Path):
    directory.rename(directory.parent / "data")
    assert named(directory.parent / "data" / "[ab].csv") == ["a.csv", "b.csv"]
    assert named(directory.parent / "data" / "**" / "*.csv") == ["c.csv"]


def test_what_may_never_end_is_refused(tmp_path: pathlib.Path):
    os.mkfifo(tmp_path / "rows.csv")
    (tmp_path / "link.csv").symlink_to("rows.csv")
    for given in ("rows.csv", "link.csv", "*.csv", ""):
        with pytest.raises(InputError, match="csv: received a pipe; expected an ordinary file"):
            named(tmp_path / given)
    with pytest.raises(InputError, match="input /dev/zero: received a device"):
        named("/dev/zero")


# Links.


@pytest.fixture
def linked(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Two days of raw data, the second of which is a link to a folder elsewhere."""
    for name in ("raw/day=1/a.csv", "raw/day=1/b.csv", "elsewhere/c.csv", "elsewhere/.d.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("n\n1\n")
    (tmp_path / "raw" / "day=2").symlink_to("../elsewhere")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "raw"


@pytest.mark.parametrize("given", ["raw", "raw/*/*", "raw/day=[12]/*.csv", "r*/day=?/[a-c].csv", "raw/**"])
def test_links_to_folders_and_files_are_followed(linked: pathlib.Path, given: str):
    (linked / "day=1" / "link.csv").symlink_to("../../elsewhere/c.csv")
    there = {
        pathlib.PurePath(folder, name).name
        for folder, _, names in os.walk(linked, followlinks=True)
        for name in names
    }
    found = set(named(given))
    assert found == {"a.csv", "b.csv", "c.csv"} | ({"link.csv"} if "a-c" not in given else set())
    assert found | {"link.csv", ".d.csv"} == there
    assert named(linked.parent / given) == named(given, deep=given == "raw")


def test_classes_of_images_may_be_links(linked: pathlib.Path):
    linked.rename("flowers")
    assert named("flowers", deep=True) == ["a.csv", "b.csv", "c.csv"]


@pytest.mark.parametrize(
    ("name", "target", "received"),
    [
        ("day=3", "../gone", "a link to ../gone, which cannot be followed (No such file or directory)"),
        ("day=3.csv", "day=3.csv", "a link to day=3.csv, which cannot be followed (Too many levels"),
        ("day=1/x=1", ".", "the folder raw/day=1 again, by way of symbolic links"),
        ("day=2/x=1", "../raw", "the folder raw/ again, by way of symbolic links"),
        ("day=latest", "day=1", "the folder raw/day=1 again, by way of symbolic links"),
    ],
)
def test_links_that_lead_nowhere_or_back_are_refused_by_name(linked, name, target, received):
    (linked / name).symlink_to(target)
    with pytest.raises(InputError, match=re.escape(f"input raw/{name}: received {received}")):
        named("raw")
    with pytest.raises(InputError, match=re.escape(f"input raw/{name}: received {received}")):
        named("raw/**", deep=True)
    # What the advice says: a glob that leaves it out.
    assert named("raw/day=1/?.csv") == ["a.csv", "b.csv"]


def test_links_that_no_input_asks_for_are_left_alone(linked: pathlib.Path):
    for name, target in ((".#lock", "nobody@host:1"), ("self", "."), (".old", "../gone")):
        (linked / name).symlink_to(target)
    assert named("raw") == named("raw/day=*/*") == ["a.csv", "b.csv", "c.csv"]


def test_a_folder_that_may_not_be_listed_is_named(linked: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    listed = os.scandir

    def scandir(path: str) -> object:
        if path.endswith("day=2"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(InputError, match="input raw/day=2: received Permission denied"):
        named("raw")


def test_an_input_without_files_says_what_is_there(linked: pathlib.Path):
    with pytest.raises(InputError, match="received folders alone, such as raw/day=1") as raised:
        named("raw/day=*")
    assert "'--input=raw/day=*/*'" in str(raised.value)
    (linked / "link").symlink_to("../gone")
    with pytest.raises(InputError, match=r"received a link to \.\./gone, which is not there"):
        named("raw/link")


# Columns of folders such as `date=2026-11-01` are read as if the files had them.
TOWNS = ("Zürich", "a/b c", None)


def _csv(rows: Sequence[dict]) -> bytes:
    return ("n,y\n" + "".join(f"{row['n']},{row['y']}\n" for row in rows)).encode()


def _jsonl(rows: Sequence[dict]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _parquet(rows: Sequence[dict]) -> bytes:
    content = io.BytesIO()
    pa.parquet.write_table(pa.Table.from_pylist(list(rows)), content)
    return content.getvalue()


def _avro(rows: Sequence[dict]) -> bytes:
    content = io.BytesIO()
    fields = [{"name": "n", "type": "int"}, {"name": "y", "type": "string"}]
    fastavro.writer(content, {"type": "record", "name": "r", "fields": fields}, rows)
    return content.getvalue()


WRITERS = {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet, "avro": _avro}
SCHEMA = Schema(
    name="trips",
    features=(
        Numeric(name="n", number="int64"),
        Datetime(name="day", format="%Y-%m-%d"),
        Categorical(name="town", missing="mark"),
        Label(name="y", classes=("no", "yes")),
    ),
)


def folder_of(root: pathlib.Path, day: str, town: str | None) -> pathlib.Path:
    named = files.MISSING_PARTITION if town is None else urllib.parse.quote(town, safe="")
    return root / f"day={day}" / f"town={named}"


def write(root: pathlib.Path, writer: Callable[[Sequence[dict]], bytes], name: str) -> None:
    """A file of ten rows for each of two days and three towns."""
    for day in (1, 2):
        for number, town in enumerate(TOWNS):
            folder = folder_of(root, f"2026-11-0{day}", town)
            folder.mkdir(parents=True)
            rows = [{"n": day * 100 + number * 10 + row, "y": ("no", "yes")[row % 2]} for row in range(10)]
            (folder / name).write_bytes(writer(rows))


@pytest.mark.parametrize("raw_format", WRITERS)
def test_folders_give_columns_origins_and_statistics(tmp_path, raw_format):
    write(tmp_path / "raw", WRITERS[raw_format], f"part.{raw_format}")
    source = WithPartitions(source=open_source(raw_format), columns=SCHEMA.columns)
    dataset = converted(str(tmp_path / "raw"), tmp_path / "out", source=source, schema=SCHEMA)
    assert verify(tmp_path / "out").problems == ()
    assert dataset.manifest.rows_written == 60
    train = loading.load(dataset)[TRAIN].features
    assert set(dict(train["town"].values.values)) == {"Zürich", "a/b c"}
    assert (train["town"].missing, train["day"].missing) > (0, 0)
    assert train["day"].numeric.maximum - train["day"].numeric.minimum == 24 * 3600 * 1e6
    [raw] = raw_rows(dataset, [(dataset.manifest.splits[TRAIN][0].path, 0)])
    assert (tmp_path / "raw" / raw.origin.file).is_file()


def test_a_row_with_a_bad_value_of_its_folder_is_rejected_by_its_file_and_line(tmp_path):
    (folder := folder_of(tmp_path, "someday", "Bern")).mkdir(parents=True)
    (folder / "part.csv").write_text("n,y\n1,no\n")
    (good := folder_of(tmp_path, "2026-11-01", "Bern")).mkdir(parents=True)
    (good / "part.csv").write_text("n,y\n" + "".join(f"{row},no\n" for row in range(20)))
    source = WithPartitions(source=open_source("csv"), columns=SCHEMA.columns)
    converted(str(tmp_path), tmp_path / "out", source=source, schema=SCHEMA, rejected=0.2)
    [line] = (tmp_path / "out" / "rejected" / "rejected.jsonl").read_text().splitlines()
    rejected = json.loads(line)
    assert (rejected["source"], rejected["row"], rejected["column"], rejected["raw"]) == (
        "day=someday/town=Bern/part.csv",
        2,
        "day",
        "someday",
    )


def test_local_times_that_clocks_skip_or_show_twice_are_counted(tmp_path: pathlib.Path):
    """The clocks of Zürich skip 2:00 to 3:00 on 2024-03-31, and show it twice on 2024-10-27."""
    days = [
        "2024-03-31 02:30",
        "2024-10-27 02:00",
        "2024-10-27 02:59",
        "2024-10-27 02:59Z",
        "2024-10-27 03:00",
    ]
    rows = "".join(f"{row},{day},no\n" for row, day in enumerate(days * 3))
    (tmp_path / "raw.csv").write_text("n,day,y\n" + rows)
    zoned = Datetime(name="day", zone="Europe/Zurich")
    schema = Schema(name="trips", features=(SCHEMA.features[0], zoned, SCHEMA.features[-1]))
    converted(
        str(tmp_path / "raw.csv"), tmp_path / "out", source=open_source("csv"), schema=schema, rejected=0.2
    )
    kept = json.loads((tmp_path / "out" / "conversion.json").read_text())
    assert kept["shown_twice"] == {"day": 6}
    assert kept["rejected_reasons"] == {"a time that the clocks of Europe/Zurich skip": 3}


def read(path: pathlib.Path, raw_format: str, columns: Sequence[str] | None) -> dict[str, list]:
    source = WithPartitions(source=open_source(raw_format), columns=columns)
    [input_split] = source.input_splits([Input(location=str(path))])
    batches = [raw.columns for raw in source.read(input_split) if raw.columns.num_rows]
    return pa.Table.from_batches(batches).to_pydict()


def test_a_column_of_the_file_itself_comes_first(tmp_path):
    (folder := tmp_path / "town=Bern" / "town=Basel" / "x=1").mkdir(parents=True)
    (folder / "part.csv").write_text("town,n\nGenf,1\n")
    assert read(folder / "part.csv", "csv", ["town", "x"]) == {"town": [b"Genf"], "n": [b"1"], "x": ["1"]}
    assert read(folder / "part.csv", "csv", ["n"]) == {"town": [b"Genf"], "n": [b"1"]}
    (folder / "part.jsonl").write_text('{"town": "Genf"}\n{"n": 1}\n{"town": null}\n')
    assert read(folder / "part.jsonl", "jsonl", ["town"])["town"] == [b"Genf", b"Basel", b"Basel"]


def test_rows_without_any_column_of_their_own_get_those_of_the_folder(tmp_path):
    (folder := tmp_path / "n=7").mkdir()
    (folder / "part.jsonl").write_text("{}\n{}\n")
    assert read(folder / "part.jsonl", "jsonl", None) == {"n": ["7", "7"]}


def test_a_folder_that_is_not_utf_8_is_refused(tmp_path):
    with pytest.raises(InputError, match="a folder with '%FF', which is not UTF-8"):
        files.partition_values("raw/town=%FF/part.csv")


@pytest.mark.parametrize("path", ["raw/=3/part.csv", "raw/a=b=c.csv", "plain/part.csv", "day=1.csv"])
def test_only_folders_with_a_name_and_a_value_are_columns(path):
    assert files.partition_values(path) == {}


def test_an_empty_value_is_an_empty_text():
    assert files.partition_values("gs://bucket/day=/x=a=b/part.csv") == {"day": "", "x": "a=b"}


def test_a_schema_is_proposed_with_the_columns_of_folders(tmp_path):
    write(tmp_path / "raw", _csv, "part.csv")
    source = flags.with_partitions(open_source("csv"))
    inputs = [Input(location=f"{tmp_path}/raw/*/*/part.csv")]
    proposed = propose_from(source, inputs, label="y", max_rows=1000).schema
    kinds = {feature.name: feature.kind for feature in proposed.features}
    assert kinds["town"] == "categorical"
    assert kinds["day"] == "datetime"


def test_a_path_that_is_there_is_no_split(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "date=1").mkdir()
    (tmp_path / "date=1" / "part.csv").write_text("n\n1\n")
    assert parse_input("date=1").location == "date=1"
    assert parse_input("date=*/part.csv").location == "date=*/part.csv"
    assert parse_input("test=elsewhere.csv").split == "test"


def test_a_location_that_beam_does_not_reach_is_refused():
    with pytest.raises(InputError, match=r"--input=no://where/a\.csv: .*a location that Beam reaches"):
        files.list_files(parse_input("no://where/a.csv"))


# Folders that a directory does not stand for.


def test_files_in_other_folders_are_not_left_out_in_silence(linked: pathlib.Path):
    (linked / "old").mkdir()
    (linked / "old" / "notes.txt").touch()
    assert len(CsvFiles().input_splits([Input(location="raw")])) == 3  # those of other kinds are
    (linked / "old" / "z.csv").write_text("n\n1\n")
    with pytest.raises(InputError, match=r"that are not read, such as raw/old/z\.csv") as raised:
        CsvFiles().input_splits([Input(location="raw")])
    every, own = re.findall("'--input=(.*?)'", str(raised.value))
    assert "z.csv" in named(every) and named(own) == ["a.csv", "b.csv", "c.csv"]


def test_nor_are_those_of_a_link_to_elsewhere(tmp_path: pathlib.Path):
    for name in ("raw/a.csv", "store/b.csv"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("n\n1\n")
    (tmp_path / "raw" / "self").symlink_to(".")
    assert len(CsvFiles().input_splits([Input(location=str(tmp_path / "raw"))])) == 1
    (tmp_path / "raw" / "2026").symlink_to("../store")
    with pytest.raises(InputError, match=r"such as .*raw/2026/b\.csv; .*'--input=.*raw/[*]\.csv'"):
        CsvFiles().input_splits([Input(location=str(tmp_path / "raw"))])
