"""A schema proposed from files, up to the dataset converted with it."""

import json
import pathlib
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Image, Label
from tests.shared.fixtures.raw_data import DATA, Ended, RunBinary, encoded, needs_data

ADULT_COLUMNS = (
    "age,workclass,fnlwgt,education,education_num,marital_status,occupation,relationship,race,sex,"
    "capital_gain,capital_loss,hours_per_week,native_country,income"
)


Infer = Callable[..., Ended]
Convert = Callable[..., dict]


@pytest.fixture
def infer(run_binary: RunBinary) -> Infer:
    def infer(directory: pathlib.Path, *flags: object) -> Ended:
        return run_binary("beam_jobs.infer_schema", f"--output={directory / 'proposed.json'}", *flags)

    return infer


@pytest.fixture
def convert(run_binary: RunBinary) -> Convert:
    """Gives the summary."""

    def convert(directory: pathlib.Path, *flags: object) -> dict:
        ended = run_binary(
            "beam_jobs.convert",
            *(f"--schema={directory / 'proposed.json'}", f"--output={directory / 'out'}"),
            *(f"--json={directory / 'summary.json'}", *flags),
        )
        assert ended.code == 0, ended.err
        return json.loads((directory / "summary.json").read_text())

    return convert


def test_a_table_is_proposed_printed_and_converted(people: pathlib.Path, infer: Infer, convert: Convert):
    given = ("--format=csv", f"--input={people / 'people.csv'}")
    ended = infer(people, *given, "--label=rich")
    assert ended.code == 0, ended.err
    assert "categorical vocabulary=2" in ended.out
    assert "'height': '?' (" in ended.out and "is taken as missing." in ended.out
    proposed = schema_lib.load(people / "proposed.json")
    assert [feature.kind for feature in proposed.features] == ["numeric", "categorical", "label"]
    assert "as in row numbers" in proposed.ignore["age"]  # 20, 21, 22, …
    assert convert(people, *given)["rows_written"] == 40


def test_images_are_proposed_and_converted(fruit: pathlib.Path, infer: Infer, convert: Convert):
    given = ("--format=images", f"--input={fruit / 'images'}")
    (fruit / "images" / "durian").mkdir()
    ended = infer(fruit, *given, "--name=fruit")
    assert (ended.code, "Folders without images are no classes: 'durian'." in ended.out) == (0, True)
    assert schema_lib.load(fruit / "proposed.json").features == (
        Image(name="image", height=4, width=6, channels=3, encoding="png"),
        Label(name="label", classes=("apple", "pear")),
    )
    assert convert(fruit, *given[1:])["rows_written"] == 12  # the schema remembers the format


@pytest.mark.slow
def test_images_of_several_sizes_formats_and_numbered_classes(
    tmp_path: pathlib.Path, infer: Infer, convert: Convert
):
    for number, kind in enumerate(("PNG", "JPEG", "BMP")):
        folder = tmp_path / "images" / str(number + 8)
        folder.mkdir(parents=True)
        pixels = np.zeros((number + 1, 5), np.uint8)
        (folder / "1.img").write_bytes(encoded(pixels, kind))
    given = ("--format=images", f"--input={tmp_path / 'images'}")
    assert infer(tmp_path, *given).code == 0
    assert schema_lib.load(tmp_path / "proposed.json").features == (
        Image(name="image", channels=1),
        Label(name="label", task="multiclass", classes=("8", "9", "10")),
    )
    assert convert(tmp_path, *given)["rows_written"] == 3


@pytest.mark.slow
def test_images_in_webp(tmp_path: pathlib.Path, infer: Infer, convert: Convert):
    for name in ("cat", "dog"):
        (tmp_path / "images" / name).mkdir(parents=True)
        (tmp_path / "images" / name / "1.webp").write_bytes(encoded(np.zeros((4, 6, 3), np.uint8), "WEBP"))
    given = ("--format=images", f"--input={tmp_path / 'images'}")
    assert infer(tmp_path, *given).code == 0
    [image, _] = schema_lib.load(tmp_path / "proposed.json").features
    assert image == Image(name="image", height=4, width=6, encoding="any")
    assert convert(tmp_path, *given)["rows_written"] == 2


def test_an_edited_schema_is_not_overwritten(people: pathlib.Path, infer: Infer):
    (people / "proposed.json").write_text("edited")
    ended = infer(people, "--format=csv", f"--input={people / 'people.csv'}")
    assert (ended.code, "add --overwrite" in ended.err) == (2, True)
    assert (people / "proposed.json").read_text() == "edited"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--format=csv",), "--input: received nothing"),
        (("--format=csv", "--input=nowhere.csv"), "nowhere.csv: received no file there"),
        (("--frmat=csv",), "Did you mean --format?"),
    ],
)
def test_wrong_flags_are_refused(tmp_path: pathlib.Path, flags: tuple[str, ...], message: str, infer: Infer):
    ended = infer(tmp_path, *flags)
    assert (ended.code, ended.err.startswith("error: ")) == (2, True)
    assert message in ended.err


@pytest.mark.slow
@needs_data
def test_adult_census(tmp_path: pathlib.Path, infer: Infer, convert: Convert):
    train, test = (f"{DATA}/adult/adult-{part}.csv" for part in ("train", "test"))
    given = ("--format=csv", f"--column_names={ADULT_COLUMNS}", f"--input={train}", f"--input=test={test}")
    assert infer(tmp_path, *given, "--label=income", "--name=adult").code == 0
    assert schema_lib.load(tmp_path / "proposed.json").label.classes == ("<=50K", ">50K")
    summary = convert(tmp_path, *given, "--splits=train=0.9,validation=0.1")
    assert (summary["rows_written"], summary["splits"]["test"]["records"]) == (48_842, 16_281)


@pytest.mark.slow
@needs_data
def test_chicago_taxi(tmp_path: pathlib.Path, infer: Infer, convert: Convert):
    given = ("--format=csv", f"--input={DATA}/chicago_taxi/data_big_tipper.csv")
    assert infer(tmp_path, *given, "--label=big_tipper", "--ignore=tips").code == 0
    proposed = schema_lib.load(tmp_path / "proposed.json")
    assert proposed.ignore == {
        "tips": "left out by --ignore",
        "pickup_census_tract": "empty in 15,001 of 15,002 rows",
    }
    assert convert(tmp_path, *given)["rows_written"] == 15_002


def test_a_parquet_column_of_bytes_is_left_out_by_name(tmp_path: pathlib.Path, infer: Infer):
    rows = 200
    columns = {
        "x": [row / 7 for row in range(rows)],
        "blob": [bytes([200 + row % 50] * 3) for row in range(rows)],
        "y": [row % 2 for row in range(rows)],
    }
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    ended = infer(tmp_path, f"--input={tmp_path / 'rows.parquet'}", "--label=y")
    assert ended.code == 0, ended.err
    proposed = schema_lib.load(tmp_path / "proposed.json")
    assert proposed.ignore["blob"] == "bytes that are no text in 200 of 200 rows"
    assert "x" in [feature.name for feature in proposed.features]
