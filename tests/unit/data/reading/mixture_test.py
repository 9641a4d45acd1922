"""Several datasets in one stream: every cycle in proportion, exact from any position and on any hosts."""

import numpy as np
import pytest

from pipeline.base.errors import InputError
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.reading import stream as stream_lib
from pipeline.data.reading.plan import CYCLE, Mixture, Part, plan_reading
from pipeline.data.reading.sharding import Share
from pipeline.data.schema.schema import Schema
from tests.shared.matrix import quick_cases
from tests.shared.tiny_dataset import write_dataset
from tests.unit.data.reading.id_stream import SCHEMA, ids_of, numbers_of, write

SIZES = (1_500, 130)


@pytest.fixture(scope="module", params=quick_cases(["rows", "blocks"], ["blocks"]))
def selections(request, tmp_path_factory: pytest.TempPathFactory) -> tuple[Selection, ...]:
    """Ids 0 … 1,499 and, of another dataset, 10,000 … 10,129."""
    directory = tmp_path_factory.mktemp("parts")
    found = []
    for number, size in enumerate(SIZES):
        ids = range(10_000 * number, 10_000 * number + size)
        dataset = write(directory / str(number), ids, layout=request.param)
        found.append(select(dataset, "train"))
    return tuple(found)


def mixture(selections: tuple[Selection, ...], *weights: float) -> Mixture:
    parts = zip(selections, weights, strict=True)
    return Mixture(parts=tuple(Part(selection=s, weight=w) for s, w in parts))


def ids(data: Mixture, *, position: int, count: int, hosts: int = 1, host: int = 0) -> np.ndarray:
    share = Share(global_batch=20, replicas=hosts, shard_count=hosts, shard_index=host)
    plan = plan_reading(data, share=share, seed=1, position=position)
    return ids_of(plan, batches=count // share.batch)


@pytest.fixture(scope="module")
def stream(selections: tuple[Selection, ...]) -> np.ndarray:
    """The ids of three parts and one, from the start."""
    return ids(mixture(selections, 3.0, 1.0), position=0, count=14 * CYCLE)


def test_every_cycle_holds_each_part_in_proportion_and_each_part_keeps_its_epochs(stream):
    is_second = stream >= 10_000
    assert is_second.reshape(14, CYCLE).sum(axis=1).tolist() == [250] * 14
    first = stream[~is_second].reshape(7, 1500)
    assert (np.sort(first) == np.arange(1500)).all()
    second, times = np.unique(stream[is_second][: 13 * 250], return_counts=True)
    assert (second == np.arange(10_000, 10_130)).all()
    assert (times == 25).all()
    assert len(set(is_second[:CYCLE].reshape(10, 100).sum(axis=1))) > 1  # mixed, not in a fixed pattern


def test_counts_are_those_of_python_3_11_on_every_python(selections):
    # 666, 167, 167 by the sum() of Python 3.12.
    assert mixture((selections[0],) * 3, 0.4, 0.1, 0.1).counts == (667, 167, 166)


@pytest.mark.parametrize("position", quick_cases([1, 999, 1000, 2345], [999, 2345]))
def test_the_stream_goes_on_from_any_position(selections, stream, position: int):
    part = ids(mixture(selections, 3.0, 1.0), position=position, count=1000)
    np.testing.assert_array_equal(part, stream[position : position + 1000])


@pytest.mark.parametrize("position", quick_cases([0, 999, 2345], [2345]))
def test_numbers_tell_the_part_and_the_row(selections, stream, position: int):
    data = mixture(selections, 3.0, 1.0)
    plan = plan_reading(data, share=Share(global_batch=20), seed=1, position=position)
    positions, numbers = numbers_of(plan, rows=1500)
    assert positions.tolist() == list(range(position, position + 1500))
    # Ids are numbers in stored order.
    assert (numbers @ [10_000, 1]).tolist() == stream[position : position + 1500].tolist()


@pytest.mark.slow
def test_two_hosts_read_what_one_does(selections):
    data = mixture(selections, 1.0, 2.0)
    whole = ids(data, position=40, count=400)
    halves = [ids(data, position=40, count=200, hosts=2, host=host) for host in (0, 1)]
    both = np.stack([half.reshape(-1, 10) for half in halves], axis=1)  # (batch, host, examples)
    np.testing.assert_array_equal(both.ravel(), whole)


@pytest.mark.slow
@pytest.mark.parametrize("selections", ["rows"], indirect=True)
@pytest.mark.parametrize(
    ("position", "hosts"), quick_cases([(0, 1), (1, 1), (2345, 1), (40, 2)], [(2345, 1)])
)
def test_large_records_come_in_the_same_order_though_only_numbers_are_mixed(
    selections, monkeypatch: pytest.MonkeyPatch, position: int, hosts: int
):
    data, last = mixture(selections, 3.0, 1.0), {"position": position, "hosts": hosts, "host": hosts - 1}
    held = ids(data, count=1200, **last)
    assert not stream_lib.is_large_mixture(data)
    monkeypatch.setattr(stream_lib, "SINGLE_RECORD_BYTES", 1)
    assert stream_lib.is_large_mixture(data)
    np.testing.assert_array_equal(ids(data, count=1200, **last), held)


def test_counts_add_up_and_an_epoch_is_the_first_parts(selections):
    thirds = mixture(selections, 1.0, 2.0)
    assert thirds.counts == (333, 667)
    assert thirds.rows == -(-1500 * 1000 // 333)


@pytest.mark.parametrize("weight", [float("inf"), float("nan"), 1e308])
def test_a_weight_whose_share_cannot_be_told_is_refused(selections, weight: float):
    with pytest.raises(
        InputError, match=r"received weight (inf|nan|1e\+308); expected a number below 1e\+100"
    ):
        mixture(selections, weight, 1.0)


@pytest.mark.parametrize("weight", [0.0, -1.0, 0.0001])
def test_a_weight_that_gives_nothing_is_refused(selections, weight: float):
    with pytest.raises(InputError, match="expected at least 1/1,000 of all weights"):
        mixture(selections, 1.0, weight)


def test_data_of_another_schema_is_refused(selections, tmp_path):
    other = Schema(name="other", features=SCHEMA.features[1:])
    dataset = write_dataset(tmp_path / "other", other, {"train": [{"y": 0}, {"y": 1}]})
    with pytest.raises(InputError, match="as the first has"):
        mixture((selections[0], select(dataset, "train")), 1.0, 1.0)
