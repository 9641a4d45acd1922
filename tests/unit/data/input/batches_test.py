"""Batches: static shapes, exact shares for every replica, padding that does not count."""

import pathlib
from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import select
from pipeline.data.images.augmentation import Augmentation
from pipeline.data.input.batches import evaluation_batches, evaluation_steps, training_batches
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading.plan import ReadPlan, plan_reading
from pipeline.data.reading.sharding import Share
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.feature_types import Image, Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading
from tests.shared import rewritten
from tests.shared.matrix import quick_cases
from tests.shared.tiny_dataset import write_dataset

RECORDS = 21
IMAGE = Image(name="image", height=6, width=5, channels=1, encoding="png")
LABEL = Label(name="y", task="multiclass", classes=("a", "b", "c"))


def write(directory: pathlib.Path, *features: Feature) -> Dataset:
    pixels = np.random.default_rng(0).integers(0, 256, (RECORDS, 6, 5, 1), np.uint8)
    rows = [{"image": tf.io.encode_png(pixels[i]).numpy(), "x": float(i), "y": i % 3} for i in range(RECORDS)]
    names = [feature.name for feature in features]
    return write_dataset(
        directory / "1.0.0",
        Schema(name="few", features=features),
        {"train": [{name: row[name] for name in names} for row in rows]},
    )


@pytest.fixture(scope="module", autouse=True)
def nothing_rewritten() -> Iterator[None]:
    """AutoGraph writes files, which a killed process leaves behind."""
    with rewritten.recording() as functions:
        yield
    assert functions == []


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write(tmp_path_factory.mktemp("numbers"), Numeric(name="x"), LABEL)


@pytest.fixture(scope="module")
def preprocess(dataset: Dataset) -> Preprocess:
    return preprocess_of(dataset)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Images with a number each."""
    return write(tmp_path_factory.mktemp("mixed"), IMAGE, Numeric(name="x"), LABEL)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Images alone, which can be mixed with each other."""
    return write(tmp_path_factory.mktemp("alone"), IMAGE, LABEL)


def preprocess_of(dataset: Dataset) -> Preprocess:
    return Preprocess(dataset.schema, loading.load(dataset)["train"])


def plan_of(dataset: Dataset, share: Share, **how) -> ReadPlan:
    """Reads in the order that is traced soonest: the tests of the stream hold all orders."""
    return plan_reading(select(dataset, "train"), share=share, shuffle="global", **how)


def test_training_batches_have_static_shapes(mixed):
    plan = plan_of(mixed, Share(global_batch=8), seed=0)
    inputs, labels = training_batches(plan, preprocess_of(mixed)).element_spec
    assert inputs["image"] == tf.TensorSpec((8, 6, 5, 1), tf.uint8)
    assert inputs["numeric"] == tf.TensorSpec((8, 1), tf.float32)
    assert inputs["categories"] == tf.TensorSpec((8, 1), tf.int32)
    assert labels == tf.TensorSpec((8,), tf.int32)


def test_two_hosts_share_each_global_batch_as_two_replicas_of_one_do(dataset, preprocess):
    def numbers(count: int, **hosts: int) -> list[list[float]]:
        share = Share(global_batch=4, replicas=4, **hosts)
        batches = training_batches(plan_of(dataset, share, seed=3), preprocess)
        return [inputs["numeric"].numpy().ravel().tolist() for inputs, _ in batches.take(count)]

    one_host = numbers(24)
    first, second = (numbers(12, shard_count=2, shard_index=host) for host in (0, 1))
    two_hosts = [b for i in range(0, 12, 2) for b in (*first[i : i + 2], *second[i : i + 2])]
    assert two_hosts == one_host


@pytest.mark.parametrize("replicas", quick_cases([1, 4], [4]))
def test_evaluation_counts_every_example_once(dataset, preprocess, replicas):
    selection = select(dataset, "train")
    batches = evaluation_batches(selection, preprocess, share=Share(global_batch=8, replicas=replicas))
    seen, count = [], 0
    for inputs, labels, mask in batches:
        assert labels.shape == mask.shape == (8 // replicas,)
        seen += inputs["numeric"].numpy()[mask.numpy() == 1.0].ravel().tolist()
        count += 1
    assert count == evaluation_steps(RECORDS, 8) * replicas
    assert len(set(seen)) == len(seen) == RECORDS


@pytest.mark.parametrize(
    ("hosts", "global_batch"), quick_cases([(2, 8), (4, 40)], [(2, 8)])
)  # the last of four hosts has no row
@pytest.mark.slow
def test_hosts_evaluate_every_example_once_together_and_a_range_each(
    dataset, preprocess, hosts, global_batch
):
    selection, seen = select(dataset, "train"), []
    stored = [
        inputs["numeric"].numpy()[mask.numpy() == 1.0].ravel()
        for inputs, _, mask in evaluation_batches(selection, preprocess, share=Share(global_batch=8))
    ]
    for host in range(hosts):
        share = Share(global_batch=global_batch, replicas=hosts, shard_count=hosts, shard_index=host)
        batches = list(evaluation_batches(selection, preprocess, share=share))
        assert len(batches) == evaluation_steps(RECORDS, global_batch)
        for inputs, _, mask in batches:
            assert mask.shape == (global_batch // hosts,)
            seen += inputs["numeric"].numpy()[mask.numpy() == 1.0].ravel().tolist()
    assert seen == np.concatenate(stored).tolist()


def batches_of(pictures: Dataset, share: Share, count: int, position: int = 0, **alpha: float) -> list:
    plan = plan_of(pictures, share, seed=3, position=position)
    found = training_batches(plan, preprocess_of(pictures), augmentation=Augmentation(flip=True, **alpha))
    return [tf.nest.map_structure(lambda each: each.numpy(), batch) for batch in found.take(count)]


@pytest.mark.slow
def test_mixed_batches_are_those_that_numpy_mixes(pictures):
    share = Share(global_batch=8)
    for (inputs, labels), (mixed, targets) in zip(
        batches_of(pictures, share, 5), batches_of(pictures, share, 5, mixup=1.0), strict=True
    ):
        swap = np.arange(8).reshape(4, 2)[:, ::-1].ravel()
        by_share = targets.shares[:, None, None, None].astype(np.float64)
        expected = by_share * inputs["image"] + (1 - by_share) * inputs["image"][swap]
        np.testing.assert_allclose(mixed["image"], expected, rtol=0, atol=0.501)
        np.testing.assert_array_equal(targets.own, labels)
        np.testing.assert_array_equal(targets.other, labels[swap])
        np.testing.assert_array_equal(targets.shares[::2], targets.shares[1::2])


@pytest.mark.slow
def test_mixed_batches_are_the_same_on_any_hosts_and_from_any_step(pictures):
    alpha, hosts = {"mixup": 0.5, "cutmix": 1.0}, 2
    whole = batches_of(pictures, Share(global_batch=8), 6, **alpha)
    shares = [Share(global_batch=8, replicas=4, shard_count=hosts, shard_index=host) for host in range(hosts)]
    each = [batches_of(pictures, share, 3 * 4 // hosts, position=3 * 8, **alpha) for share in shares]
    for step in range(3):
        of_hosts = [parts[step * 4 // hosts : (step + 1) * 4 // hosts] for parts in each]
        parts = [tf.nest.flatten(part) for of_host in of_hosts for part in of_host]
        for expected, *found in zip(tf.nest.flatten(whole[3 + step]), *parts, strict=True):
            np.testing.assert_array_equal(np.concatenate(found), expected)


def test_what_cannot_be_mixed_is_refused(mixed, pictures):
    with pytest.raises(
        InputError, match=r"--config.augmentation.mixup: received 0.2; .*unless one image is the only input"
    ):
        training_batches(
            plan_of(mixed, Share(global_batch=8), seed=0),
            preprocess_of(mixed),
            augmentation=Augmentation(mixup=0.2),
        )
    with pytest.raises(
        InputError, match=r"batch of a replica: received 3 examples; .* --config.global_batch=8"
    ):
        batches_of(pictures, Share(global_batch=6, replicas=2), 1, cutmix=1.0)


@pytest.mark.slow
def test_augmented_pixels_depend_on_nothing_but_seed_and_index(pictures):
    augmentation = Augmentation(shift=0.2, rotate_degrees=20.0, zoom=0.1, flip=True)

    def pixels(position: int, global_batch: int, count: int) -> np.ndarray:
        plan = plan_of(pictures, Share(global_batch=global_batch), seed=5, position=position)
        batches = training_batches(plan, preprocess_of(pictures), augmentation=augmentation)
        return np.concatenate([inputs["image"] for inputs, _ in batches.take(count)])

    whole = pixels(0, 10, 6)
    np.testing.assert_array_equal(pixels(26, 17, 2), whole[26:60])
