"""What a run writes is known as ours; what anybody else may have is not."""

import pathlib

import pytest

from beam_jobs.launch import claims
from pipeline.data.dataset import shards

GOLDENS = (
    pathlib.Path(__file__).parents[3] / "conformance" / "goldens" / "v1"
)  # datasets that `convert` has written
SHARD = claims.shard("census", "train", 3, 12)
OURS = (
    SHARD,
    shards.file_name(SHARD),
    claims.predictions(0, 2, "parquet"),
    claims.ANOMALIES,
    claims.SCHEMA_PROTO,
    claims.TEMPORARY,
    "rejected",
    "conversion.json",
    "income.labels.txt",
)


@pytest.mark.parametrize("name", OURS)
def test_what_a_run_writes_is_ours(name: str):
    assert claims.is_ours(name)


def test_every_file_of_a_dataset_is_ours_but_the_one_that_vouches_for_it():
    datasets = (GOLDENS / "rows", GOLDENS / "blocks")
    found = {path.name for dataset in datasets for path in dataset.iterdir()}
    assert len(found) > len(OURS)
    assert [name for name in found if not claims.is_ours(name)] == ["manifest.json"]


# The files that vouch for the others are written last: where they are, nothing is left over.
@pytest.mark.parametrize("name", ["thesis.tex", "manifest.json", claims.PREDICTIONS, "schema.json.bak"])
def test_anything_else_is_not(name: str):
    assert not claims.is_ours(name)


def test_the_mark_outlives_what_it_marks():
    found = [claims.CLAIM_MARK, "_tmp/1/progress", "rejected", "_tmp", "Answer.labels.txt", "schema.json"]
    *before, last = claims.leftovers_in_order(found)
    assert last == claims.CLAIM_MARK
    assert [name.startswith("_tmp") for name in before] == [False, False, False, True, True]
