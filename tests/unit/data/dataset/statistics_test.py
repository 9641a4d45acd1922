"""Statistics survive their file, and tensorflow-metadata's own classes read it."""

from tensorflow_metadata.proto.v0 import statistics_pb2

from pipeline.data.dataset import statistics
from pipeline.data.dataset.statistics import FeatureStatistics, NumericSummary, SplitStatistics, ValueCounts

AGE = FeatureStatistics(
    name="age",
    dtype="float32",
    present=9,
    missing=1,
    numeric=NumericSummary(
        minimum=17.0,
        maximum=90.0,
        mean=38.58,
        std=13.64,
        zeros=0,
        quantiles=(17.0, 28.0, 37.0, 48.0, 90.0),
        distribution=(17.0, 22.0, 28.0, 33.0, 37.0, 42.0, 48.0, 61.0, 90.0),
        repeated=(23.0, 36.0),
    ),
)
WORK = FeatureStatistics(
    name="work",
    dtype="string",
    present=8,
    missing=2,
    mean_length=5.5,
    values=ValueCounts(distinct=2, values=(("Private", 6), ("State", 2))),
)
ID = FeatureStatistics(
    name="id",
    dtype="string",
    present=10,
    missing=0,
    values=ValueCounts(distinct=10_000, values=(), complete=False),
)
CENSUS = {"train": SplitStatistics(examples=10, features={"age": AGE, "work": WORK, "id": ID})}


def test_a_round_trip_keeps_everything():
    assert statistics.loads(statistics.dumps(CENSUS)) == CENSUS


def test_equal_statistics_give_equal_bytes():
    assert statistics.dumps(CENSUS) == statistics.dumps(statistics.loads(statistics.dumps(CENSUS)))


def test_other_tools_find_the_fields_where_they_expect_them():
    message = statistics_pb2.DatasetFeatureStatisticsList.FromString(statistics.dumps(CENSUS))
    (split,) = message.datasets
    assert (split.name, split.num_examples) == ("train", 10)
    age, work, _ = split.features
    assert age.num_stats.median == 37.0 and age.num_stats.common_stats.num_missing == 1
    assert work.string_stats.top_values[0].value == "Private"


def test_missing_fraction():
    assert AGE.missing_fraction == 0.1
