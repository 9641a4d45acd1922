"""Several datasets in one stream: every cycle in proportion, exact from any position and on any hosts."""

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.errors import InputError
from pipeline.data.mixture import CYCLE, Mixture, Part
from pipeline.data.schema import Schema
from pipeline.data.selection import Selection, select
from pipeline.data.training_recipe import training_recipe
from tests.data.id_stream import SCHEMA, ids_of
from tests.tiny_dataset import write_dataset

SIZES = (1_500, 130)


@pytest.fixture(scope="module", params=["rows", "blocks"])
def selections(request, tmp_path_factory: pytest.TempPathFactory) -> tuple[Selection, ...]:
    """Ids 0 … 1,499 and, of another dataset, 10,000 … 10,129."""
    directory = tmp_path_factory.mktemp("parts")
    found = []
    for number, size in enumerate(SIZES):
        rows = [{"id": 10_000 * number + i, "y": i % 2} for i in range(size)]
        dataset = write_dataset(directory / str(number), SCHEMA, {"train": rows}, layout=request.param)
        found.append(select(dataset, "train"))
    return tuple(found)


def mixture(selections: tuple[Selection, ...], *weights: float) -> Mixture:
    parts = zip(selections, weights, strict=True)
    return Mixture(parts=tuple(Part(selection=s, weight=w) for s, w in parts))


def ids(source: Mixture, *, position: int, count: int, context: tf.distribute.InputContext | None = None):
    recipe = training_recipe(
        source, preprocess=None, global_batch=20, seed=1, position=position, context=context
    )
    return ids_of(recipe, batches=count // recipe.batch)


def test_every_cycle_holds_each_part_in_proportion_and_each_part_keeps_its_epochs(selections):
    stream = ids(mixture(selections, 3.0, 1.0), position=0, count=14 * CYCLE)
    is_second = stream >= 10_000
    assert is_second.reshape(14, CYCLE).sum(axis=1).tolist() == [250] * 14
    first = stream[~is_second].reshape(7, 1500)
    assert (np.sort(first) == np.arange(1500)).all()
    second, times = np.unique(stream[is_second][: 13 * 250], return_counts=True)
    assert (second == np.arange(10_000, 10_130)).all()
    assert (times == 25).all()
    assert len(set(is_second[:CYCLE].reshape(10, 100).sum(axis=1))) > 1  # mixed, not in a fixed pattern


@pytest.mark.parametrize("position", [1, 999, 1000, 2345])
def test_the_stream_goes_on_from_any_position(selections, position: int):
    whole = ids(mixture(selections, 3.0, 1.0), position=0, count=4 * CYCLE)
    part = ids(mixture(selections, 3.0, 1.0), position=position, count=1000)
    np.testing.assert_array_equal(part, whole[position : position + 1000])


def test_two_hosts_read_what_one_does(selections):
    source = mixture(selections, 1.0, 2.0)
    whole = ids(source, position=40, count=400)
    halves = [
        ids(source, position=40, count=200, context=tf.distribute.InputContext(2, host, 2)) for host in (0, 1)
    ]
    both = np.stack([half.reshape(-1, 10) for half in halves], axis=1)  # (batch, host, examples)
    np.testing.assert_array_equal(both.ravel(), whole)


def test_counts_add_up_and_an_epoch_is_the_first_parts(selections):
    thirds = mixture(selections, 1.0, 2.0)
    assert thirds.counts == (333, 667)
    assert thirds.rows == -(-1500 * 1000 // 333)


@pytest.mark.parametrize("weight", [0.0, -1.0, 0.0001])
def test_a_weight_that_gives_nothing_is_refused(selections, weight: float):
    with pytest.raises(InputError, match="expected at least 1/1,000 of all weights"):
        mixture(selections, 1.0, weight)


def test_data_of_another_schema_is_refused(selections, tmp_path):
    other = Schema(name="other", features=SCHEMA.features[1:])
    dataset = write_dataset(tmp_path / "other", other, {"train": [{"y": 0}, {"y": 1}]})
    with pytest.raises(InputError, match="as the first has"):
        mixture((selections[0], select(dataset, "train")), 1.0, 1.0)
