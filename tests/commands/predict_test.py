"""Batch inference: every row gets its prediction and keeps its key, or is listed with the reason."""

import dataclasses
import json
import math
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from beam_jobs.inference import tables
from beam_jobs.inference.job import Prediction, open_export
from beam_jobs.inference.model import Predicted
from beam_jobs.launch.claims import CLAIM_MARK
from beam_jobs.launch.run import Run, run_job
from beam_jobs.sources.formats import open_source
from beam_jobs.sources.jsonl import JsonLines
from beam_jobs.sources.source import Input
from pipeline.base import documents
from pipeline.base.errors import InputError
from pipeline.base.files import sha256
from pipeline.data.dataset import records
from pipeline.data.reading import parsing
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Datetime, Label, LabelGroup
from pipeline.data.schema.schema import Schema
from tests.shared.fixtures.raw_data import PEOPLE, RunBinary, people_csv


def export(model: pathlib.Path, schema: Schema) -> pathlib.Path:
    """A model that says `yes` with a probability of age / 1000, NaN for the age of 149."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        features = tf.io.parse_example(examples, parsing.parsing_spec(schema, with_label=False))
        age = tf.cast(features["age"], tf.float32)
        yes = tf.where(age == 149, math.nan, age / 1000)
        return {"probabilities": tf.stack([1 - yes, yes], axis=1)}

    tf.saved_model.save(tf.Module(), str(model), signatures={"serving_default": serve})
    schema_lib.save(schema, model / schema_lib.FILE_NAME)
    files = {path.name: sha256(path) for path in (model / "saved_model.pb", model / "schema.json")}
    document = documents.with_digest({"format": records.FORMAT, "files": files})
    (model / records.FILE_NAME).write_text(json.dumps(document))
    return model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return export(tmp_path_factory.mktemp("exports") / "1", PEOPLE)


def run(
    model: pathlib.Path,
    csv: pathlib.Path,
    *,
    keys: tuple[str, ...] = (),
    file_format: str = "parquet",
    max_rejected_fraction: float = 0.0,
    raw_format: str = "csv",
) -> dict:
    source = open_source(raw_format)
    job = Prediction(
        source=source,
        input_splits=source.input_splits([Input(location=str(csv))]),
        exported=open_export(model),
        keys=keys,
        batch=7,
        file_format=file_format,
        run=Run(runner="FnApiRunner", beam_flags=(), max_rejected_fraction=max_rejected_fraction),
    )
    return run_job(job, output=str(csv.parent / "out"))


@pytest.fixture
def people(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "people.csv").write_bytes(people_csv(20))
    return tmp_path / "people.csv"


def test_rows_keep_their_place_and_their_order(model: pathlib.Path, people: pathlib.Path):
    document = run(model, people)
    table = pq.read_table(people.parent / "out" / "predictions-00000-of-00001.parquet")
    assert table["source"].unique().to_pylist() == ["people.csv"]
    assert table["row"].to_pylist() == list(range(2, 22))  # lines: the first is the header
    probabilities = np.array(table["probabilities"].to_pylist())
    assert probabilities[:, 1] == pytest.approx(np.arange(20, 40) / 1000)
    assert set(table["class"].to_pylist()) == {"no"}
    assert (document["rows_read"], document["rows_predicted"], document["rows_rejected"]) == (20, 20, 0)
    published = json.loads((people.parent / "out" / "_predictions.json").read_text())
    assert published == document
    assert sorted(path.name for path in (people.parent / "out").iterdir()) == [
        "_predictions.json",
        "_rejected.jsonl",
        "predictions-00000-of-00001.parquet",
    ]
    assert pq.read_table(people.parent / "out").equals(table)  # a folder, as others read it


def test_local_times_of_a_change_of_clocks_are_told_as_convert_tells_them(
    tmp_path: pathlib.Path, people: pathlib.Path
):
    """At 02:30 in Zurich, clocks skip the first time, and show the second twice."""
    when = Datetime(name="when", format="%d-%b-%y", zone="Europe/Zurich")
    schema = dataclasses.replace(PEOPLE, features=(*PEOPLE.features, when))
    model = export(tmp_path / "export", schema)
    header, *rows = people.read_text().splitlines()
    times = ["31-Mar-24 02:30", "27-Oct-24 02:30", *["01-Jul-24 02:30"] * (len(rows) - 2)]
    lines = [f"{header},when", *(f"{row},{time}" for row, time in zip(rows, times, strict=True))]
    people.write_text("\n".join(lines) + "\n")
    document = run(model, people, max_rejected_fraction=0.1)
    assert document["rejected_reasons"] == {"a time that the clocks of Europe/Zurich skip": 1}
    assert document["shown_twice"] == {"when": 1}


@pytest.mark.parametrize(
    ("label", "given", "columns"),
    [
        (
            Label(name="y", task="multilabel", classes=("a", "b")),
            {"probabilities": [[0.9, 0.2], [0.5, 0.1], [0.6, 0.7]]},
            {"classes": [["a"], [], ["a", "b"]], "probabilities": [[0.9, 0.2], [0.5, 0.1], [0.6, 0.7]]},
        ),
        (
            LabelGroup(name="a, b", task="multitarget", parts=("a", "b")),
            {"values": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]},
            {"value_a": [1.0, 3.0, 5.0], "value_b": [2.0, 4.0, 6.0]},
        ),
    ],
)
def test_several_answers_a_row_have_columns_of_their_own(label: Label, given: dict, columns: dict):
    keys = pa.record_batch({"row": pa.array([2, 3, 4])})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, keys.schema) as stream:
        stream.write_batch(keys)
    outputs = {name: np.array(values, "float32") for name, values in given.items()}
    predicted = Predicted(input_split=0, ordinal=0, keys=sink.getvalue().to_pybytes(), outputs=outputs)
    table = tables.predictions(predicted, label)
    assert table.schema.names == ["row", *columns]
    for name, values in columns.items():
        found = table.column(name).to_pylist()
        assert found == (values if name == "classes" else [pytest.approx(value) for value in values])
    with pytest.raises(InputError, match="a column of the predictions"):
        tables.check_keys([next(iter(columns))], label)


def test_keys_are_carried_through_and_the_label_may_be_absent(model: pathlib.Path, people: pathlib.Path):
    people.write_text("id,age,height,city,more\nx7,50,1.7,Bern,a\ny8,60,,Bern,b\n")
    run(model, people, keys=("id", "age"), file_format="tfrecord")
    records = tf.data.TFRecordDataset(str(people.parent / "out" / "predictions-00000-of-00001.tfrecord"))
    first, second = (tf.train.Example.FromString(record.numpy()).features.feature for record in records)
    assert first["id"].bytes_list.value[0] == b"x7"
    assert second["age"].bytes_list.value[0] == b"60"
    assert second["class"].bytes_list.value[0] == b"no"
    assert second["probabilities"].float_list.value == pytest.approx([0.94, 0.06])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([7, 2**70, 1.5, True], ["7", str(2**70), "1.5", "true"]),
        pytest.param([7, 1.5, 2**53 + 1], ["7", "1.5", str(2**53 + 1)], marks=pytest.mark.slow),
        pytest.param([7, None, "x", [1, 2]], ["7", None, "x", "1 2"], marks=pytest.mark.slow),
    ],
)
def test_keys_of_json_are_text_whatever_comes_in_later_rows(
    model: pathlib.Path, tmp_path: pathlib.Path, given: list, expected: list
):
    people, batch = tmp_path / "people.jsonl", JsonLines().batch_rows
    ids = [1] * batch + given  # each batch is typed for itself
    lines = [{"age": 30, "height": 1.7, "city": "Bern"} | ({} if id_ is None else {"id": id_}) for id_ in ids]
    people.write_text("\n".join(map(json.dumps, lines)))
    run(model, people, keys=("id",), raw_format="jsonl")
    assert pq.read_table(tmp_path / "out")["id"].to_pylist()[batch:] == expected


def test_a_key_of_json_that_no_row_has_is_told_of(
    model: pathlib.Path, tmp_path: pathlib.Path, run_binary: RunBinary
):
    people = tmp_path / "people.jsonl"
    people.write_text('{"age": 30, "city": "Bern", "id": 1}\n{"age": 30, "city": "Bern"}\n')
    given = (f"--model={model}", f"--input={people}", "--format=jsonl", f"--output={tmp_path / 'out'}")
    ended = run_binary("beam_jobs.predict", *given, "--keys=id,absent")
    assert (ended.code, ended.err) == (0, "")
    told = [line for line in ended.out.splitlines() if line.startswith("warning")]
    assert told == ["warning    --keys: no row that was predicted has a value in 'absent'"]
    assert json.loads((tmp_path / "out" / "_predictions.json").read_text())["keys_without_values"] == [
        "absent"
    ]


def test_a_key_that_a_table_does_not_have_is_refused(model: pathlib.Path, people: pathlib.Path):
    with pytest.raises(InputError, match=r"--keys: received 'citi'; expected columns of .*city.*'city'"):
        run(model, people, keys=("citi",))


def test_where_the_columns_of_the_model_are_absent_too_keys_are_not_blamed(
    model: pathlib.Path, people: pathlib.Path
):
    people.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"input \S+people\.csv: received columns a, b; expected also 'age'"):
        run(model, people, keys=("id",))


@pytest.mark.parametrize("key", ["class", "probabilities"])
def test_a_key_that_a_prediction_has_is_refused_before_any_work(model: pathlib.Path, key: str):
    request = Run(runner="FnApiRunner", beam_flags=(), max_rejected_fraction=0.0)
    with pytest.raises(InputError, match=f"--keys: received column '{key}'"):
        Prediction(
            source=open_source("csv"),
            input_splits=[],
            exported=open_export(model),
            keys=(key,),
            batch=7,
            file_format="parquet",
            run=request,
        )


def test_bad_rows_are_listed_and_the_others_predicted(model: pathlib.Path, people: pathlib.Path):
    people.write_bytes(people_csv(20) + b"old,1.7,Bern,no\n")
    document = run(model, people, max_rejected_fraction=0.1)
    assert (document["rows_predicted"], document["rejected_reasons"]) == (20, {"not a whole number": 1})
    [listed] = (people.parent / "out" / "_rejected.jsonl").read_text().splitlines()
    assert (json.loads(listed)["row"], json.loads(listed)["raw"]) == (22, "old")


def test_a_cell_that_swallowed_rows_is_told_with_its_line(
    model: pathlib.Path, people: pathlib.Path, capsys: pytest.CaptureFixture
):
    people.write_bytes(b'note,age,height,city\n"one,30,1.7,Bern\ntwo",31,1.8,Bern\n')
    assert run(model, people)["rows_predicted"] == 1
    assert "warning    people.csv line 2: a quoted cell holds line ends" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("csv", "message"),
    [
        (people_csv(20) + b"old,1.7,Bern,no\n", "1 of 21 rows"),
        (people_csv(20).replace(b"city", b"town"), "expected also 'city'"),
        (
            people_csv(20) + b"149,1.7,Bern,no\n",
            r"2 values that are NaN or infinite, first for source \S*people\.csv, row 22;",
        ),
        (b"age,height,city\n", "0 rows, none of which"),
    ],
)
def test_what_cannot_be_predicted_publishes_nothing(
    model: pathlib.Path, people: pathlib.Path, csv: bytes, message: str
):
    people.write_bytes(csv)
    with pytest.raises(InputError, match=message):
        run(model, people)
    assert not (people.parent / "out").exists()


def test_a_changed_model_and_a_taken_directory_are_refused(tmp_path: pathlib.Path, people: pathlib.Path):
    changed = export(tmp_path / "model", PEOPLE)
    (people.parent / "out").mkdir()
    (people.parent / "out" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"thesis\.tex"):
        run(changed, people)
    (changed / "saved_model.pb").write_bytes(b"")
    with pytest.raises(InputError, match=r"saved_model\.pb.*as exported"):
        run(changed, people)


def test_what_a_killed_run_left_is_cleared(model: pathlib.Path, people: pathlib.Path):
    (people.parent / "out" / "_tmp" / "an older run").mkdir(parents=True)
    (people.parent / "out" / CLAIM_MARK).touch()
    (people.parent / "out" / "predictions-00001-of-00002.parquet").write_text("half")
    assert run(model, people)["rows_predicted"] == 20
    assert not (people.parent / "out" / "predictions-00001-of-00002.parquet").exists()


def test_raw_files_are_read_as_the_schema_of_the_model_remembers(
    tmp_path: pathlib.Path, run_binary: RunBinary
):
    age, *others = PEOPLE.features
    remembered = {"delimiter": ";", "encoding": "latin-1", "header": "yes"}
    renamed = (dataclasses.replace(age, column="Größe? (J.)"), *others)
    model = export(tmp_path / "model", dataclasses.replace(PEOPLE, features=renamed, raw_files=remembered))
    table = "city;Größe? (J.);height\nBern;30;1.7\nZürich;40;\n"
    for encoding in ("latin-1", "utf-16"):  # which has a mark
        (tmp_path / f"{encoding}.csv").write_bytes(table.encode(encoding))
        given = (f"--input={tmp_path / encoding}.csv", f"--output={tmp_path / encoding}", "--keys=city")
        ended = run_binary("beam_jobs.predict", f"--model={model}", *given)
        assert (ended.code, ended.err) == (0, "")
        rows = pq.read_table(tmp_path / encoding).to_pylist()
        assert [row["city"] for row in rows] == ["Bern", "Zürich"]
        assert [row["probabilities"][1] for row in rows] == pytest.approx([0.03, 0.04])


def test_the_command_line(model: pathlib.Path, people: pathlib.Path, run_binary: RunBinary):
    given = (f"--model={model}", f"--input={people}", "--format=csv", f"--output={people.parent / 'out'}")
    ended = run_binary("beam_jobs.predict", *given)
    assert (ended.code, ended.err) == (0, "")
    assert "20 rows read, 20 predicted, 0 rejected" in ended.out
    again = run_binary("beam_jobs.predict", *given)
    assert again.code == 2
    assert "_predictions.json" in again.err
