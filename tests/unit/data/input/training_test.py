"""Groups in which training reads and prepares: many batches at once, but never many epochs."""

import pathlib

import pytest

from pipeline.data.dataset.selection import select
from pipeline.data.input import training
from pipeline.data.input.training import training_recipe
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading.plan import plan_reading
from pipeline.data.reading.sharding import Share
from pipeline.data.schema.feature_types import Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading
from tests.shared.tiny_dataset import write_dataset

SCHEMA = Schema(name="numbers", features=(Numeric(name="x"), Label(name="y", classes=("a", "b"))))


@pytest.mark.parametrize(
    ("records", "batch", "together"),
    [
        (3, 1, 3),  # an epoch
        (3, 2, 2),
        (3, 256, 256),  # a batch is never cut
        (100, 8, 12 * 8),
        (300, 8, 256),
    ],
)
def test_a_group_holds_an_epoch_at_most_and_a_batch_at_least(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, records: int, batch: int, together: int
):
    monkeypatch.setattr(training, "GROUP_ROWS", 256)
    rows = [{"x": float(i), "y": i % 2} for i in range(records)]
    dataset = write_dataset(tmp_path / "1.0.0", SCHEMA, {"train": rows})
    plan = plan_reading(select(dataset, "train"), share=Share(global_batch=batch), seed=0, shuffle="windows")
    assert training_recipe(plan, Preprocess(SCHEMA, loading.load(dataset)["train"])).turn == together
