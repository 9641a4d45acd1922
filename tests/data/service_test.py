"""Batches that tf.data services prepare are those that this host prepares, whatever their number."""

from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data import statistics as statistics_lib
from pipeline.data.errors import InputError
from pipeline.data.features import Image, Label
from pipeline.data.input import training_batches
from pipeline.data.manifest import Dataset
from pipeline.data.preprocess import Preprocess
from pipeline.data.schema import Schema
from pipeline.data.selection import select
from pipeline.data.service import naming_lost_service
from tests.data_servers import address_of, kill, serving, start
from tests.tiny_dataset import write_dataset
from tests.training.small_run import SCHEMA, rows, write_small_dataset

IMAGES = Schema(
    name="dots", features=(Image(name="image", height=8, width=8), Label(name="y", classes=("a", "b")))
)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    directory = tmp_path_factory.mktemp("published")
    draw = np.random.default_rng(0)
    pictures = [
        {"image": tf.io.encode_png(draw.integers(0, 255, (8, 8, 3), np.uint8)).numpy(), "y": i % 2}
        for i in range(50)
    ]
    return {
        "records": write_small_dataset(directory / "records"),
        "blocks": write_dataset(directory / "blocks", SCHEMA, {"train": rows(3000, seed=0)}, layout="blocks"),
        "images": write_dataset(directory / "images", IMAGES, {"train": pictures}),
    }


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.data.training_recipe.GROUP_ROWS", 40)


@pytest.fixture(scope="module")
def three_addresses() -> Iterator[list[str]]:
    with serving(3) as addresses:
        yield addresses


def batches(dataset: Dataset, count: int, **how) -> list[tuple]:
    preprocess = Preprocess(dataset.schema, statistics_lib.load(dataset)["train"])
    stream = training_batches(select(dataset, "train"), preprocess, global_batch=8, seed=1, **how)
    return list(stream.take(count).as_numpy_iterator())


@pytest.mark.parametrize("services", [1, 3])
@pytest.mark.parametrize(
    ("name", "shuffle"),
    [
        ("records", "windows"),
        ("records", "global"),
        ("blocks", "windows"),
        ("images", "global"),
        ("images", "windows"),
    ],
)
@pytest.mark.parametrize("hosts", [1, 2])
def test_services_give_what_this_host_gives(
    datasets, three_addresses, services: int, name: str, shuffle: str, hosts: int
):
    addresses = three_addresses[:services]
    context = tf.distribute.InputContext(hosts, hosts - 1, num_replicas_in_sync=4)
    how = {"shuffle": shuffle, "position": 328, "context": context}
    here = batches(datasets[name], 40, **how)
    there = batches(datasets[name], 40, data_service=addresses, **how)
    assert len(here) == len(there) == 40
    tf.nest.map_structure(np.testing.assert_array_equal, there, here)


def test_mapped_blocks_are_not_sent(datasets):
    with pytest.raises(InputError, match=r"--data_service: .*Set --config.shuffle=windows"):
        batches(datasets["blocks"], 1, data_service=["grpc://localhost:1"])


@pytest.mark.parametrize("address", ["somewhere", "grpc://localhost", "grpc://localhost:1"])
def test_an_address_where_no_service_answers_is_named(datasets, address: str):
    with pytest.raises(InputError, match=rf"received {address} .*pipeline\.data_service"):
        batches(datasets["records"], 1, data_service=[address])


def test_a_service_that_was_killed_and_started_anew_ends_the_run(datasets):
    process = start()
    addresses = [address_of(process)]
    preprocess = Preprocess(SCHEMA, statistics_lib.load(datasets["records"])["train"])
    stream = iter(
        training_batches(
            select(datasets["records"], "train"), preprocess, global_batch=8, seed=1, data_service=addresses
        )
    )
    next(stream)
    kill(process)
    anew = start(f"--port={addresses[0].rpartition(':')[2]}")
    with pytest.raises(InputError, match="goes on from the last checkpoint"), naming_lost_service(addresses):
        for _ in stream:
            pass
    kill(anew)
