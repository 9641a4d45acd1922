"""The conversion as a user runs it: same bytes, readable by TFDS, clear refusals, nothing half-done."""

import functools
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Categorical, Image, Label, Tensor, Text, Tokens
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading
from tests.shared.fixtures.raw_data import (
    FRUIT,
    PEOPLE,
    ROOT,
    Ended,
    RunBinary,
    encoded,
    fruit_pixels,
    people_csv,
)
from tests.shared.matrix import quick_cases

Convert = Callable[..., Ended]
TWO_PROCESSES = ("--direct_num_workers=2", "--direct_running_mode=multi_processing")


def contents(directory: pathlib.Path) -> dict[str, bytes]:
    """Every file of a dataset but the record of how it was made."""
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != "conversion.json")
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def without_origins(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if not name.startswith("origins/")}


def read_with_tfds(directory: pathlib.Path) -> dict[str, list[dict]]:
    builder = tfds.builder_from_directory(directory)
    return {
        split: list(
            tfds.as_numpy(builder.as_dataset(split=split, read_config=tfds.ReadConfig(try_autocache=False)))
        )
        for split, info in builder.info.splits.items()
        if info.num_examples
    }


def test_tfds_reads_a_table_as_it_was(convert_people: Convert, people: pathlib.Path):
    assert convert_people().code == 0
    read = [row for rows in read_with_tfds(people / "out").values() for row in rows]
    received = sorted((int(r["age"]), str(r["height"]), r["city"].decode(), int(r["rich"])) for r in read)
    expected = []
    for line in people_csv().decode().splitlines()[1:]:
        age, height, city, rich = line.split(",")
        expected.append(
            (int(age), str(np.float32("nan" if height == "?" else height)), city, int(rich == "yes"))
        )
    assert received == sorted(expected)


@pytest.mark.slow
def test_tfds_reads_images_as_they_were(convert_fruit: Convert, fruit: pathlib.Path):
    assert convert_fruit().code == 0
    read = [row for rows in read_with_tfds(fruit / "out").values() for row in rows]
    received = {(row["image"].tobytes(), int(row["label"])) for row in read}
    assert len(read) == 12
    assert received == {(fruit_pixels(number).tobytes(), number % 2) for number in range(12)}


@pytest.mark.slow
def test_every_other_kind_of_feature_reaches_tfds(tmp_path: pathlib.Path, run_binary: RunBinary):
    features = (
        Tensor(name="matrix", dimensions=(2, 2)),
        Tokens(name="tokens", length=3, vocabulary_size=100),
        Text(name="text", missing="mark"),
        Categorical(name="hashed", encoding="hashed", buckets=8, missing="default", default="none"),
        Categorical(name="integer", encoding="integer", size=4, missing="default", default=3),
        Label(name="value", task="regression"),
    )
    schema_lib.save(
        Schema(name="kinds", features=features, ignore={"id": "an id"}, row_id=("id",)),
        tmp_path / "schema.json",
    )
    (tmp_path / "kinds.csv").write_text(
        "id,matrix,tokens,text,hashed,integer,value\n"
        'a,"1 2;3 .5",7 8 9,"two\nlines, é",x,2,0.5\n'
        "b,0 0 0 0,0 0 99,,,,-1e3\n"
    )
    ended = run_binary(
        "beam_jobs.convert",
        *("--format=csv", "--splits=train=1", f"--input={tmp_path / 'kinds.csv'}"),
        *(f"--schema={tmp_path / 'schema.json'}", f"--output={tmp_path / 'out'}"),
    )
    assert ended.code == 0, ended.err
    rows = sorted(read_with_tfds(tmp_path / "out")["train"], key=lambda row: row["value"])
    received = [{name: np.asarray(value).tolist() for name, value in row.items()} for row in rows]
    zeros = [[0, 0], [0, 0]]
    empty = {"text": b"", "hashed": b"none", "integer": 3}
    full = {"text": "two\nlines, é".encode(), "hashed": b"x", "integer": 2}
    assert received == [
        {"matrix": zeros, "tokens": [0, 0, 99], "value": -1000, **empty},
        {"matrix": [[1, 2], [3, 0.5]], "tokens": [7, 8, 9], "value": 0.5, **full},
    ]


def test_the_dataset_opens_with_its_statistics(convert_people: Convert, people: pathlib.Path):
    assert convert_people("--splits=train=1").code == 0
    dataset = manifest_lib.open_dataset(people / "out")
    assert (dataset.records("train"), dataset.manifest.rows_read) == (40, 40)
    [train] = loading.load(dataset).values()
    assert (train.examples, train.features["height"].missing) == (40, 14)
    assert train.features["age"].numeric.mean == 39.5
    assert train.features["rich"].values.values == (("no", 32), ("yes", 8))


@pytest.mark.slow
def test_same_bytes_again_from_two_processes_and_from_a_file_in_another_order(
    people: pathlib.Path, run_binary: RunBinary
):
    header, *rows = people_csv(100_000).splitlines(keepends=True)
    half = len(rows) // 2
    layouts = {"one": [rows[:half], rows[half:]], "two": [rows[half:], rows[:half]]}
    for name, parts in layouts.items():
        (people / name).mkdir()
        for number, part in enumerate(parts):
            (people / name / f"{number}.csv").write_bytes(header + b"".join(part))
    lenient = schema_lib.dumps(PEOPLE).replace('"maximum": 150', '"maximum": 1000000')
    (people / "schema.json").write_text(lenient)

    def convert(raw: str, output: str, *flags: str) -> dict[str, bytes]:
        ended = run_binary(
            "beam_jobs.convert",
            *("--format=csv", f"--schema={people / 'schema.json'}", "--shard_mib=1"),
            *(f"--input={people / raw}", f"--output={people / output}", *flags),
        )
        assert (ended.code, ended.err) == (0, "")
        return contents(people / output)

    once = convert("one", "once")
    assert len([name for name in once if "-train." in name]) == 2
    assert convert("one", "twice", *TWO_PROCESSES) == once
    shuffled = convert("two", "shuffled", *TWO_PROCESSES)
    assert without_origins(shuffled) == without_origins(once)


def test_pinned_inputs_keep_their_split(people: pathlib.Path, run_binary: RunBinary):
    (people / "test.csv").write_bytes(people_csv())
    ended = run_binary(
        "beam_jobs.convert",
        *("--format=csv", f"--schema={people / 'schema.json'}", "--splits=train=0.5,validation=0.5"),
        *(f"--input={people / 'people.csv'}", f"--input=test={people / 'test.csv'}"),
        *(f"--output={people / 'people' / '2.1.0'}", f"--json={people / 'summary.json'}"),
    )
    assert ended.code == 0
    summary = json.loads((people / "summary.json").read_text())
    assert summary["splits"]["test"]["records"] == 40
    assert summary["splits"]["train"]["records"] + summary["splits"]["validation"]["records"] == 40
    manifest = manifest_lib.load(people / "people" / "2.1.0")
    assert (manifest.version, manifest.digest) == ("2.1.0", summary["digest"])


def test_bad_rows_within_the_limit_are_listed(convert_people: Convert, people: pathlib.Path):
    with (people / "people.csv").open("ab") as file:
        file.write(b"1,2\nten,1,Bern,no\n")
    assert convert_people("--max_rejected_fraction=0.1").code == 0
    listed = (people / "out" / "rejected" / "rejected.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in listed] == [
        {"source": "people.csv", "row": 42, "column": None, "reason": "2 cells in place of 4", "raw": "1,2"},
        {"source": "people.csv", "row": 43, "column": "age", "reason": "not a whole number", "raw": "ten"},
    ]
    conversion = json.loads((people / "out" / "conversion.json").read_text())
    assert (conversion["rows_read"], conversion["rows_rejected"]) == (42, 2)
    assert conversion["rejected_reasons"] == {"2 cells in place of 4": 1, "not a whole number": 1}


def assert_refused(ended: Ended, directory: pathlib.Path, *messages: str) -> None:
    """One error line with all `messages`, exit code 2, no traceback, no trace of an output."""
    assert ended.code == 2
    assert ended.err.startswith("error: ")
    assert "Traceback" not in ended.err
    for message in messages:
        assert message in ended.err
    assert not (directory / "out").exists()


@pytest.mark.parametrize(
    ("row", "messages"),
    [
        (b"30,tall,Bern,no", ("row 42, column 'height'", "not a number", "'tall'")),
        pytest.param(b"30,1.7,Bern", ("row 42", "3 cells in place of 4"), marks=pytest.mark.slow),
        pytest.param(
            b"30,1.7,Rome,no",
            ("row 42, column 'city'", "not in the vocabulary", "'Rome'"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_bad_row_publishes_nothing(
    convert_people: Convert, people: pathlib.Path, row: bytes, messages: tuple[str, ...]
):
    with (people / "people.csv").open("ab") as file:
        file.write(row + b"\n")
    assert_refused(convert_people(), people, "1 of 41 rows", "Nothing was published", *messages)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(encoded(fruit_pixels(0))[:-40], "a damaged part", marks=pytest.mark.slow),
        (encoded(fruit_pixels(0, height=5)), "6x5 pixels in place of 6x4"),
    ],
)
def test_a_bad_image_publishes_nothing(
    convert_fruit: Convert, fruit: pathlib.Path, content: bytes, message: str
):
    (fruit / "images" / "pear" / "bad.png").write_bytes(content)
    assert_refused(convert_fruit(), fruit, "1 of 13 rows", "pear/bad.png", message)


def test_a_bad_image_within_the_limit_is_left_out(convert_fruit: Convert, fruit: pathlib.Path):
    (fruit / "images" / "pear" / "bad.png").write_bytes(b"")
    assert convert_fruit("--max_rejected_fraction=0.1").code == 0
    dataset = manifest_lib.open_dataset(fruit / "out")
    assert (dataset.manifest.rows_written, dataset.manifest.rows_rejected) == (12, 1)


def test_a_missing_input_is_refused(convert_people: Convert, people: pathlib.Path):
    (people / "people.csv").unlink()
    assert_refused(convert_people(), people, "people.csv: received no file there")


@pytest.mark.parametrize("content", [b"", b"age,height,city,rich\n"])
def test_an_empty_input_is_refused(convert_people: Convert, people: pathlib.Path, content: bytes):
    (people / "people.csv").write_bytes(content)
    assert_refused(convert_people(), people, "received 0 ")


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "extra.csv: received 0 bytes"), (b"age,height,city,rich\n", "split 'extra': received 0 rows")],
)
def test_an_empty_input_among_others_is_refused(
    convert_people: Convert, people: pathlib.Path, content: bytes, message: str
):
    (people / "extra.csv").write_bytes(content)
    assert_refused(convert_people(f"--input=extra={people / 'extra.csv'}"), people, message)


@pytest.mark.parametrize("flags", [(), pytest.param(TWO_PROCESSES, marks=pytest.mark.slow)])
def test_an_undeclared_column_is_refused_by_name(
    convert_people: Convert, people: pathlib.Path, flags: tuple[str, ...]
):
    (people / "people.csv").write_bytes(people_csv().replace(b"city", b"town"))
    assert_refused(convert_people(*flags), people, "column 'town', which the schema does not know")


def test_a_schema_of_other_data_is_refused(convert_people: Convert, people: pathlib.Path):
    schema_lib.save(FRUIT, people / "schema.json")
    assert_refused(
        convert_people(), people, "'age', 'height', 'city', 'rich', which the schema does not know"
    )


def test_an_output_that_exists_is_refused_and_kept(convert_people: Convert, people: pathlib.Path):
    assert convert_people().code == 0
    before = contents(people / "out")
    again = convert_people()
    assert (again.code, "received a published dataset" in again.err) == (2, True)
    assert contents(people / "out") == before


WRONG_FLAGS = (
    ("--direct_running_mode=multi_threading", "silently loses records"),
    ("--spilts=train=1", "Did you mean --splits?"),
    ("--runner=DataflowRunner", "received no --project, --region, --temp_location"),
    ("--splits=train=0.5", "--splits: received train=0.5"),
    ("--format=xml", "received xml; expected one of csv"),
    ("--runner=Imaginary", "--runner: received Imaginary"),
    ("--delimiter=;;", "--delimiter: received"),
    ("--output=nowhere://bucket/out", "expected a local path, or a location that Beam reaches"),
    ("--json=nowhere/summary.json", "--json=nowhere/summary.json: received a directory that does not exist"),
)


@pytest.mark.parametrize(
    ("flag", "message"),
    quick_cases(WRONG_FLAGS, WRONG_FLAGS[:3]),
)
def test_wrong_flags_are_refused(convert_people: Convert, people: pathlib.Path, flag: str, message: str):
    assert_refused(convert_people(flag), people, message)


def test_workers_import_no_tensorflow():
    code = "import sys, beam_jobs.convert; print({'tensorflow', 'tensorflow_datasets'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def run_and_kill(
    people: pathlib.Path, output: pathlib.Path, *, at_change: int
) -> subprocess.CompletedProcess:
    script = [sys.executable, str(ROOT / "tests" / "commands" / "killed_convert.py")]
    flags = [f"--input={people / 'people.csv'}", "--format=csv", f"--schema={people / 'schema.json'}"]
    return subprocess.run(
        [*script, str(at_change), str(output), f"--output={output}", *flags],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_killed_anywhere_it_publishes_nothing_and_the_next_run_is_as_if_undisturbed(people: pathlib.Path):
    undisturbed = run_and_kill(people, people / "whole", at_change=0)
    assert undisturbed.returncode == 0, undisturbed.stderr
    changes = int(undisturbed.stdout.splitlines()[-1])
    whole = contents(people / "whole")
    published = changes - 4  # the rename of the manifest; what follows clears what was temporary
    for at_change in np.linspace(1, published, 5).astype(int):
        output = people / f"killed-{at_change}"
        assert run_and_kill(people, output, at_change=at_change).returncode == -9
        assert not (output / "manifest.json").exists()
        assert run_and_kill(people, output, at_change=0).returncode == 0
        assert contents(output) == whole


# From raw data to a dataset by way of both binaries, for what is neither plain CSV nor an image folder.

Converted = Callable[..., tuple[schema_lib.Schema, list[dict]]]


@pytest.fixture
def converted(run_binary: RunBinary) -> Converted:
    """The proposed schema and the records of all splits."""
    return functools.partial(propose_and_convert, run_binary)


def propose_and_convert(
    run_binary: RunBinary, directory: pathlib.Path, given: list[str], *label: str
) -> tuple[schema_lib.Schema, list[dict]]:
    schema, output = directory / "schema.json", directory / "out"
    ended = run_binary("beam_jobs.infer_schema", *given, *label, f"--output={schema}")
    assert ended.code == 0, ended.err
    ended = run_binary("beam_jobs.convert", *given, f"--schema={schema}", f"--output={output}")
    assert ended.code == 0, ended.err
    shards = sorted(path for path in output.glob("*.tfrecord-*-of-?????"))
    records = [
        tf.train.Example.FromString(record)
        for shard in shards
        for record in tf.data.TFRecordDataset(str(shard)).as_numpy_iterator()
    ]
    return schema_lib.load(schema), [dict(record.features.feature) for record in records]


def test_a_table_of_image_paths(tmp_path: pathlib.Path, converted: Converted):
    (tmp_path / "raw" / "files").mkdir(parents=True)
    lines = ["picture,kind"]
    for number in range(12):
        (tmp_path / "raw" / "files" / f"{number}.png").write_bytes(encoded(fruit_pixels(number)))
        lines.append(f"files/{number}.png,{('apple', 'pear')[number % 2]}")
    (tmp_path / "raw" / "table.csv").write_text("\n".join(lines))
    schema, records = converted(tmp_path, [f"--input={tmp_path / 'raw' / 'table.csv'}"], "--label=kind")
    assert schema["picture"] == Image(name="picture")
    assert schema["kind"] == Label(name="kind", classes=("apple", "pear"))
    images = {record["picture"].bytes_list.value[0] for record in records}
    assert images == {encoded(fruit_pixels(number)) for number in range(12)}


def test_text_packed_into_tokens(tmp_path: pathlib.Path, converted: Converted):
    (tmp_path / "raw.txt").write_text("\n".join(f"line {number}" for number in range(500)))
    given = [f"--input={tmp_path / 'raw.txt'}", "--tokenizer=bytes", "--sequence_length=32"]
    schema, records = converted(tmp_path, given)
    packed = Tokens(name="tokens", length=32, vocabulary_size=259, tokenizer="bytes")
    assert schema["tokens"] == packed
    tokens = [token for record in records for token in record["tokens"].int64_list.value]
    assert tokens.count(1) == 500
    assert all(len(record["segments"].int64_list.value) == 32 for record in records)


@pytest.mark.slow
def test_a_dataset_of_tfds_keeps_its_splits(tmp_path: pathlib.Path, converted: Converted):
    (tmp_path / "first").mkdir()
    (tmp_path / "raw.csv").write_text("a,y\n" + "".join(f"{n / 7:.3f},{n % 2}\n" for n in range(60)))
    _, first = converted(tmp_path / "first", [f"--input={tmp_path / 'raw.csv'}"], "--label=y")
    _, again = converted(tmp_path, [f"--input=tfds:{tmp_path / 'first' / 'out'}"], "--label=y")
    assert sorted(map(str, again)) == sorted(map(str, first))
    shards = [path.name.partition("-of")[0] for path in (tmp_path / "out").glob("*.tfrecord-*-of-?????")]
    assert sorted(name.split("-")[1].removesuffix(".tfrecord") for name in shards) == [
        "test",
        "train",
        "validation",
    ]


def test_no_source_but_that_of_tfds_imports_tensorflow():
    code = "import sys, beam_jobs.sources.flags; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
