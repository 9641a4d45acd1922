"""The certificate is about what training reads."""

import dataclasses
import pathlib

import pytest
from ml_collections import ConfigDict

from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import select
from pipeline.data.input.stages import Recipe
from pipeline.data.reading import fetch
from pipeline.data.reading.plan import Mixture, Part, TrainingData
from pipeline.data.schema.feature_types import Image, Label
from pipeline.data.schema.schema import Schema
from pipeline.feed import scaling
from pipeline.feed.certificate import Certificate
from pipeline.feed.slowest import has_pictures, slowest_of
from pipeline.training.run import feed
from tests.shared.parsed import parsed
from tests.shared.pictures import encode, noise
from tests.shared.small_run import small_config, write_small_dataset
from tests.shared.tiny_dataset import write_dataset


def certified(config: ConfigDict, dataset: Dataset, **asked) -> tuple[Certificate, tuple[str, ...]]:
    return feed.certify(parsed(config).data, dataset, **({"slice_": scaling.HERE} | asked))


@pytest.fixture(scope="module")
def measured(dataset: Dataset) -> tuple[Certificate, tuple[str, ...]]:
    """A certificate of the small data, from the disk too, and its advice."""
    return certified(small_config(), dataset, step_ms=60_000.0, seconds=0.02, uncached=True)


@pytest.fixture
def unmeasured(measured, monkeypatch):
    """In place of measuring, an epoch and more is read."""

    def read(recipe: Recipe, *args, **settings) -> Certificate:
        assert sum(1 for _ in zip(range(14), recipe.dataset(), strict=False)) == 14
        return measured[0]

    monkeypatch.setattr(feed, "measure_certificate", read)


def recipe_of(config: ConfigDict, data: TrainingData, slice_: scaling.Slice) -> Recipe:
    return feed.recipe_of(parsed(config).data, data, slice_)


@pytest.mark.parametrize(
    ("text", "batch"), [("", 16), ("1x2", 8), pytest.param("4x1", 4, marks=pytest.mark.slow)]
)
def test_a_host_reads_its_share(dataset: Dataset, config: ConfigDict, text: str, batch: int):
    recipe = recipe_of(config, select(dataset, "train"), scaling.parse_slices(text))
    _, labels = next(iter(recipe.dataset()))
    assert recipe.batch == batch
    assert labels.shape == [batch]


def test_a_slice_that_cannot_share_the_batch_is_refused(dataset: Dataset, config: ConfigDict):
    with pytest.raises(InputError, match="global batch"):
        recipe_of(config, select(dataset, "train"), scaling.parse_slices("1x3"))


def test_a_split_that_is_not_there_is_refused(dataset: Dataset, config: ConfigDict):
    config.train.split = "nothing"
    with pytest.raises(InputError, match="nothing"):
        certified(config, dataset, step_ms=None, seconds=0.1)


@pytest.mark.slow
def test_mapped_blocks_are_certified_with_the_stage_that_gathers_them(tmp_path, config: ConfigDict):
    blocks = write_small_dataset(tmp_path / "blocks", layout="blocks")
    found, _ = certified(config, blocks, step_ms=60_000.0, seconds=0.02)
    assert [stage.name for stage in found.stages][:4] == ["read", "gather", "parse", "preprocess"]
    assert found.verdict == "FED"


@pytest.mark.slow
def test_cold_files_are_measured_from_the_disk(dataset: Dataset, measured):
    found, _ = measured
    assert found.uncached.name == "from disk" and found.uncached.examples_per_s > 0
    assert found.measured is min(found.together, found.uncached, key=lambda line: line.examples_per_s)
    assert found.files.bytes == sum(shard.bytes for shard in dataset.manifest.splits["train"])


@pytest.mark.slow
def test_a_batch_of_more_than_an_epoch_is_told_of(dataset: Dataset, config: ConfigDict, unmeasured):
    rows = select(dataset, "train").rows
    config.global_batch = 4 * rows
    _, said = certified(config, dataset, step_ms=60_000.0, seconds=0.02)
    assert said[0].startswith(f"A global batch of {4 * rows:,} holds each of the {rows:,} examples 4.0 times")


@pytest.fixture
def damaged(tmp_path) -> Dataset:
    """In one record."""
    dataset = write_small_dataset(tmp_path / "damaged")
    path = pathlib.Path(dataset.shard_paths("train")[0])
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return dataset


@pytest.mark.parametrize("uncached", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_damaged_record_is_named(damaged: Dataset, config: ConfigDict, uncached: bool):
    path = pathlib.Path(damaged.shard_paths("train")[0])
    with pytest.raises(InputError, match=rf"{path.name}.* record \d+"):
        certified(config, damaged, step_ms=None, seconds=0.02, uncached=uncached)


@pytest.mark.slow
def test_as_many_damaged_records_are_left_out_as_may_be(damaged: Dataset, config: ConfigDict, unmeasured):
    _, said = certified(config, damaged, step_ms=60_000.0, seconds=0.02, max_corrupt_records=1)
    assert said[0].startswith("Left out: 1 damaged record: ")


def test_files_that_are_elsewhere_cannot_be_cold(dataset: Dataset, config: ConfigDict, monkeypatch):
    monkeypatch.setattr(feed.measure, "residency", lambda paths: None)
    with pytest.raises(InputError, match="--cold"):
        certified(config, dataset, step_ms=None, seconds=0.02, uncached=True)


def test_reading_runs_in_as_many_calls_as_its_way_has(tmp_path, dataset: Dataset, config: ConfigDict):
    rows = recipe_of(config, select(dataset, "train"), scaling.HERE)
    parts = tuple(Part(selection=select(dataset, "train"), weight=weight) for weight in (3.0, 1.0))
    mixed = recipe_of(config, Mixture(parts=parts), scaling.HERE)
    assert rows.read_at_once == 2.0
    assert mixed.read_at_once == pytest.approx(2.0 / 0.75)  # the part that gives most rows is the limit
    blocks = write_small_dataset(tmp_path / "blocks", layout="blocks")
    mapped = recipe_of(config, select(blocks, "train"), scaling.HERE)
    assert (mapped.read_at_once, mapped.stages[0].at_once) == (1.0, None)


@pytest.mark.parametrize(("shuffle", "reads"), [("global", 400), ("windows", 64)])
def test_as_many_reads_are_told_of_as_are_in_flight(dataset, config, monkeypatch, shuffle: str, reads: int):
    monkeypatch.setattr(fetch, "reads_in_flight", lambda shards: fetch.reads_for_latency(0.01))
    config.shuffle = shuffle
    recipe = recipe_of(config, select(dataset, "train"), scaling.HERE)
    assert recipe.in_flight.reads == recipe.read_at_once == reads


@pytest.mark.slow
def test_a_certificate_holds_its_demand(config: ConfigDict, measured):
    found, advice = measured
    assert dataclasses.asdict(found.demand)["global_batch"] == config.global_batch
    assert (found.verdict, advice) == ("FED", ())


# The slowest picture.


def of_pictures(folder: pathlib.Path, sizes: list[tuple[int, int]]) -> TrainingData:
    features = (Image(name="image"), Label(name="y", classes=("no", "yes")))
    rows = [{"image": encode(noise(*size, 3), "PNG"), "y": at % 2} for at, size in enumerate(sizes)]
    dataset = write_dataset(folder, Schema(name="p", features=features), {"train": rows})
    return select(dataset, "train")


def test_the_picture_with_the_most_bytes_is_prepared_by_itself(tmp_path, config: ConfigDict):
    data = of_pictures(tmp_path / "1.0.0", [(8, 8)] * 13 + [(300, 400)] + [(8, 8)] * 10)
    config.image_size, config.global_batch = (8, 8), 16
    recipe = recipe_of(config, data, scaling.HERE)
    slowest = slowest_of(recipe, [data], cores=3.0)
    assert slowest.place == "p-train.tfrecord-00001-of-00002 record 1 (300 x 400 PNG)"
    assert slowest.one_in == 24
    assert slowest.seconds > 0
    assert slowest.ready == (2 + 3) * 16  # two groups or batches that are finished, one in each thread


def test_a_table_has_no_slowest_picture(dataset: Dataset, config: ConfigDict):
    data = select(dataset, "train")
    assert not has_pictures(recipe_of(config, data, scaling.HERE))
