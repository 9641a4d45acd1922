"""What reaches the model otherwise in serving than in training is named, feature by feature."""

import dataclasses
import pathlib
from collections.abc import Callable

import pytest
import tensorflow as tf

from pipeline.data.dataset import statistics as statistics_lib
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import select
from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.exporting import export
from pipeline.exporting.export import Trained
from pipeline.retraining.parity import skew
from pipeline.retraining.parity_result import FeatureSkew, Skew
from pipeline.retraining.parity_rows import Sample, first_rows
from tests.shared.faulty_exports import with_other_statistics
from tests.shared.matrix import quick_cases
from tests.shared.people import ROWS, small_model, write_people

pytestmark = pytest.mark.usefixtures("warm")


@pytest.fixture(scope="module", params=quick_cases(["rows", "blocks"], ["rows"]))
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write_people(tmp_path_factory.mktemp("people") / "1.0.0", layout=request.param)


@pytest.fixture(scope="module")
def subject(dataset: Dataset, trained: Trained) -> Trained:
    """As it was trained on the dataset; its golden records are those of another, which parity never reads."""
    return dataclasses.replace(small_model(dataset), golden_path=trained.golden_path)


@pytest.fixture
def sample(dataset: Dataset) -> Sample:
    return first_rows(select(dataset, "test"), 35)


@pytest.fixture
def skew_of(subject: Trained, sample: Sample, tmp_path: pathlib.Path) -> Callable[[Trained], Skew]:
    """The skew between the sound model in training and an export of another."""

    def found(exported: Trained) -> Skew:
        export.export_model(exported, tmp_path / "other")
        return skew(subject, tf.saved_model.load(str(tmp_path / "other")), sample)

    return found


def test_a_sound_export_gets_the_same(subject, skew_of):
    found = skew_of(subject)
    assert (found.rows, found.differing, found.features) == (35, 0, [])


@pytest.mark.slow
def test_a_wrong_vocabulary_in_serving_is_named(subject, skew_of):
    work = dataclasses.replace(subject.schema["work"], vocabulary=("State", "Private"))
    age, _, *others = subject.schema.features
    schema = dataclasses.replace(subject.schema, features=(age, work, *others))
    found = skew_of(dataclasses.replace(subject, preprocess=Preprocess(schema, statistics_of(subject))))
    (feature,) = found.features
    texts = sum(row["work"] != "" for row in ROWS[60:95])  # a missing one is the same id in both
    assert feature == FeatureSkew(
        feature="work", rows=texts, example="'Private' is id 2 in training, id 3 in serving"
    )
    assert found.worst > 0


def test_a_normalization_left_at_mean_0_is_named(subject, skew_of):
    measured = statistics_of(subject).features["age"].numeric
    fresh = dataclasses.replace(measured, mean=0.0, std=1.0)
    found = skew_of(with_other_statistics(subject, age={"numeric": fresh}))
    (feature,) = found.features
    assert feature.feature == "age"
    assert feature.rows == sum(row["age"] == row["age"] for row in ROWS[60:95])
    standardised = (60 - measured.mean) / measured.std
    assert feature.example == f"60 is {standardised:g} in training, 60 in serving"
    assert found.differing > 0


def statistics_of(trained: Trained) -> SplitStatistics:
    return statistics_lib.read(trained.statistics_path)["train"]
