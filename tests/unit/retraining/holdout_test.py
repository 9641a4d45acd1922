"""Scores of a holdout, and the answers they are made of."""

import dataclasses
import math
import pathlib
import shutil
from collections.abc import Sequence

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.window import open_window
from pipeline.data.integrity.scan import DamagedRecord
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Numeric
from pipeline.data.schema.schema import Schema
from pipeline.exporting import scoring
from pipeline.retraining import holdout
from pipeline.retraining.holdout import Answers, score
from tests.shared.faulty_exports import resaved, signed_again
from tests.shared.matrix import quick_cases
from tests.shared.people import ROWS, SCHEMA, write_people
from tests.shared.tiny_dataset import Row, write_dataset

# Every model answers every row once, as it serves; the rows are those that were written.

HELD_OUT = ROWS[60:]
WORK = dataclasses.replace(SCHEMA["work"], vocabulary=("Private", "State"))
LISTED = dataclasses.replace(SCHEMA, features=(SCHEMA["age"], WORK, *SCHEMA.features[2:]))


@pytest.fixture(scope="module")
def contrary(exported: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """An export that gives each class the probability of the other."""
    output = tmp_path_factory.mktemp("contrary") / "1"
    return resaved(
        exported, output, change=lambda outputs: {name: each[:, ::-1] for name, each in outputs.items()}
    )


@pytest.fixture(scope="module", params=quick_cases(["rows", "blocks"], ["blocks"]))
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return written(tmp_path_factory.mktemp("people") / "1.0.0", layout=request.param)


def written(directory: pathlib.Path, *, layout: str) -> Dataset:
    """The rows, as a conversion to this layout stores them: to blocks it hands no text for a missing one."""
    if layout == "rows":
        return write_dataset(directory, SCHEMA, {"test": HELD_OUT})
    rows = [
        {name: None if value in ("", math.nan) else value for name, value in row.items()} for row in HELD_OUT
    ]
    return write_dataset(directory, LISTED, {"test": rows}, layout=layout, accumulators=True)


@pytest.fixture(scope="module")
def answered(exported: pathlib.Path, contrary: pathlib.Path, dataset: Dataset) -> Answers:
    """What both models answer, in batches that do not divide the rows."""
    return score({"champion": exported, "challenger": contrary}, dataset, split="test", batch=7)


def served(export: pathlib.Path, rows: Sequence[Row]) -> np.ndarray:
    """What the export answers to raw columns, by TensorFlow alone."""
    raw = tf.saved_model.load(str(export)).signatures["raw"]
    asked = {name: tf.constant([row[name] for row in rows]) for name in ("age", "work", "kind")}
    return raw(**asked)["probabilities"].numpy()


def test_each_model_answers_each_row_in_order(exported, answered):
    found = answered
    assert found.labels.tolist() == [row["rich"] for row in HELD_OUT]
    np.testing.assert_allclose(found.predictions["champion"], served(exported, HELD_OUT), atol=2e-3)
    assert np.array_equal(found.predictions["challenger"], found.predictions["champion"][:, ::-1])
    assert found.models["champion"] != found.models["challenger"]
    assert (len(found), found.task, found.classes) == (40, "binary", ("no", "yes"))
    assert (found.weights, found.clusters, found.slices) == (None, None, {})
    equal = {tuple(row.items()) for row in HELD_OUT}
    assert len(set(found.content.tolist())) == len(equal)


def test_the_size_of_a_batch_changes_nothing(exported, contrary, dataset, answered):
    models = {"champion": exported, "challenger": contrary}
    whole = score(models, dataset, split="test", batch=1024)
    np.testing.assert_allclose(whole.predictions["champion"], answered.predictions["champion"], atol=1e-6)
    assert whole.digest == answered.digest
    assert np.array_equal(whole.content, answered.content)


def test_metrics_of_the_answers_are_those_of_an_evaluation(exported, dataset, answered):
    found, told = answered, scoring.score(exported, dataset, split="test", batch=7)
    probabilities = found.predictions["champion"].astype(np.float64)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    assert told["accuracy"] == accuracy_score(found.labels, probabilities.argmax(axis=1))
    assert told["loss"] == pytest.approx(log_loss(found.labels, probabilities), abs=1e-6)
    assert told["auc"] == pytest.approx(roc_auc_score(found.labels, probabilities[:, 1]), abs=1e-3)


def test_rows_are_told_by_features_the_missing_ones_too(exported, dataset):
    found = score(
        {"champion": exported}, dataset, split="test", slices=("work", "age", "rich"), clustered_by="work"
    )
    assert found.slices["work"].tolist() == [row["work"] or "(missing)" for row in HELD_OUT]
    ages = ["(missing)" if math.isnan(row["age"]) else str(row["age"]) for row in HELD_OUT]
    assert found.slices["age"].tolist() == ages
    assert found.slices["rich"].tolist() == [("no", "yes")[row["rich"]] for row in HELD_OUT]
    known = found.clusters[found.slices["work"] != "(missing)"]
    alone = found.clusters[found.slices["work"] == "(missing)"]
    assert (len(set(known)), len(set(alone))) == (2, len(alone))
    assert not set(known) & set(alone)


def test_what_blocks_do_not_list_is_other(exported, tmp_path):
    rows = [row | {"work": "Astronaut"} for row in ROWS[:2]]
    dataset = write_dataset(tmp_path / "1.0.0", LISTED, {"test": rows}, layout="blocks")
    found = score({"champion": exported}, dataset, split="test", slices=("work",))
    assert found.slices["work"].tolist() == ["(other)", "(other)"]


def test_rows_weigh(exported, tmp_path):
    weights = [float(number % 3) for number in range(len(ROWS))]
    rows = [row | {"w": weight} for row, weight in zip(ROWS, weights, strict=True)]
    schema = dataclasses.replace(SCHEMA, features=(*SCHEMA.features, Numeric(name="w")))
    dataset = write_dataset(tmp_path / "1.0.0", schema, {"all_of_it": rows})
    found = score({"champion": exported}, dataset, split="all_of_it", weighted_by="w", slices=("w",))
    assert found.weights.tolist() == weights
    assert set(found.slices["w"]) == {"0.0", "1.0", "2.0"}


def test_spans_are_scored_as_one(exported, tmp_path):
    for day, rows in (("1", ROWS[:30]), ("2", []), ("3", ROWS[30:50])):
        write_dataset(tmp_path / day, SCHEMA, {"test": rows})
    together = open_window([f"{tmp_path}/?"])
    found = score({"champion": exported}, together, split="test", slices=("work",))
    whole = write_dataset(tmp_path / "whole", SCHEMA, {"test": ROWS[:50]})
    expected = score({"champion": exported}, whole, split="test").predictions["champion"]
    np.testing.assert_allclose(found.predictions["champion"], expected, atol=1e-6)
    assert found.slices["work"].tolist() == [row["work"] or "(missing)" for row in ROWS[:50]]


def test_a_feature_that_blocks_lack_has_its_default(exported, tmp_path):
    without = dataclasses.replace(LISTED, features=(SCHEMA["age"], *LISTED.features[2:]))
    rows = [{name: value for name, value in row.items() if name != "work"} for row in HELD_OUT]
    dataset = write_dataset(tmp_path / "1.0.0", without, {"test": rows}, layout="blocks")
    found = score({"champion": exported}, dataset, split="test")
    expected = served(exported, [row | {"work": ""} for row in HELD_OUT])
    np.testing.assert_allclose(found.predictions["champion"], expected, atol=2e-3)


def test_damaged_records_are_left_out_up_to_a_limit(exported, tmp_path):
    dataset = write_people(tmp_path / "1.0.0")
    shard = pathlib.Path(dataset.shard_paths("test")[0])
    content = bytearray(shard.read_bytes())
    content[20] ^= 1  # in the first record
    shard.write_bytes(content)
    with pytest.raises(InputError, match=r"1 damaged record: .*record 0 at byte 0"):
        score({"champion": exported}, dataset, split="test")
    found = score({"champion": exported}, dataset, split="test", max_corrupt_records=1)
    assert found.labels.tolist() == [row["rich"] for row in HELD_OUT[1:]]
    assert [record.ordinal for record in found.damaged] == [0]
    whole = score({"champion": exported}, write_people(tmp_path / "2.0.0"), split="test")
    assert found.digest != whole.digest


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"slices": ("wrk",)}, r"slices: received 'wrk'; expected .*: age, work, kind, rich\. .*'work'\?"),
        ({"clustered_by": "user"}, r"clustered_by: received 'user'; expected a feature of the holdout"),
        ({"weighted_by": "kind"}, r"weighted_by: received 'kind'; expected a feature of kind numeric: age"),
        ({"weighted_by": "age"}, r"weighted_by='age': received nan in .*, record"),
    ],
)
def test_a_feature_that_does_not_do_is_named(exported, dataset, asked, message):
    with pytest.raises(InputError, match=message):
        score({"champion": exported}, dataset, split="test", **asked)


def test_models_of_two_tasks_are_not_compared(exported, dataset, tmp_path):
    other = shutil.copytree(exported, tmp_path / "other")
    label = dataclasses.replace(SCHEMA["rich"], task="multiclass")
    features = (*SCHEMA.features[:3], label)
    schema_lib.save(dataclasses.replace(SCHEMA, features=features), other / "schema.json")
    signed_again(other)
    with pytest.raises(InputError, match=r"challenger .*task multiclass.*expected one of .*task binary"):
        score({"champion": exported, "challenger": other}, dataset, split="test")


def test_a_dataset_with_another_label_is_not_read(exported, tmp_path):
    features = (*SCHEMA.features[:3], Numeric(name="rich", number="int64"))
    dataset = write_dataset(tmp_path / "1.0.0", Schema(name="people", features=features), {"test": HELD_OUT})
    with pytest.raises(InputError, match="feature 'rich' is a numeric, not the label"):
        score({"champion": exported}, dataset, split="test")


def test_at_least_one_model_is_scored(dataset):
    with pytest.raises(InputError, match="models to compare: received none"):
        score({}, dataset, split="test")


# Answers come back from their file as they were, and a file that is not whole is refused.

DAMAGED = DamagedRecord(dataset="d1", file="a.tfrecord", ordinal=3, offset=99, rows=1, reason="its checksum")
ANSWERS = Answers(
    task="binary",
    classes=("no", "yes"),
    labels=np.array([0, 1, 1], np.int32),
    predictions={"champion": np.array([[0.9, 0.1], [0.5, 0.5], [0.0, 1.0]], np.float32)},
    weights=np.array([1.0, 0.0, 2.5], np.float32),
    clusters=np.array([4, 4, 7]),
    content=np.array([2**64 - 1, 5, 7], np.uint64),
    slices={"größe / cm": np.array(["(missing)", "ß", "170.5"]), "../x": np.array(["a", "", "b"])},
    models={"champion": "3f2a"},
    dataset_digest="77aa",
    split="test",
    damaged=(DAMAGED,),
)


def test_answers_come_back_to_the_last_bit(tmp_path):
    ANSWERS.save(tmp_path / "holdout" / "answers.npz")
    found = holdout.load(tmp_path / "holdout" / "answers.npz")
    assert found.labels.dtype == np.int32
    assert found.clusters.dtype == np.int64
    assert found.predictions["champion"].tobytes() == ANSWERS.predictions["champion"].tobytes()
    assert repr(found) == repr(ANSWERS)
    assert found.digest == ANSWERS.digest


def test_what_is_not_there_stays_away(tmp_path):
    few = dataclasses.replace(ANSWERS, weights=None, clusters=None, content=None, slices={}, damaged=())
    few.save(tmp_path / "answers.npz")
    assert repr(holdout.load(tmp_path / "answers.npz")) == repr(few)


def test_the_same_answers_are_the_same_file(tmp_path):
    for name in ("one", "other"):
        ANSWERS.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


@pytest.mark.parametrize(
    "other",
    [{"split": "validation"}, {"dataset_digest": "77ab"}, {"damaged": ()}],
    ids=lambda each: next(iter(each)),
)
def test_the_digest_tells_which_rows_they_are(other):
    assert dataclasses.replace(ANSWERS, models={}, slices={}).digest == ANSWERS.digest
    assert dataclasses.replace(ANSWERS, **other).digest != ANSWERS.digest


@pytest.mark.parametrize("damage", [lambda content: content[:500], lambda _: b"", lambda _: b"{}"])
def test_a_file_that_is_not_whole_is_refused(damage, tmp_path):
    path = tmp_path / "answers.npz"
    ANSWERS.save(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(
        InputError, match=r"answers .*: received other content.* Delete it and evaluate\.json"
    ):
        holdout.load(path)


def test_a_changed_byte_is_noticed_or_changes_no_answer(tmp_path):
    path = tmp_path / "answers.npz"
    ANSWERS.save(path)
    content = path.read_bytes()
    harmless, places = 0, range(0, len(content), 3)
    for at in places:
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        try:
            found = holdout.load(path)
        except InputError:
            continue
        harmless += 1
        assert repr(found) == repr(ANSWERS)
    assert harmless < len(places) / 2  # such as the date of a member of the .npz


def test_no_file_is_told_as_such(tmp_path: pathlib.Path):
    with pytest.raises(InputError, match="received No such file or directory"):
        holdout.load(tmp_path / "answers.npz")


def test_arrays_of_other_lengths_are_refused(tmp_path):
    dataclasses.replace(ANSWERS, labels=np.zeros(2, np.int32)).save(tmp_path / "answers.npz")
    with pytest.raises(InputError, match=r"arrays of \[2, 3\] rows"):
        holdout.load(tmp_path / "answers.npz")
