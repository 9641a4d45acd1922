"""Batches that tf.data services prepare are those that this host prepares, whatever their number."""

import itertools
import json
import pathlib
import re
import shutil
import socket
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import FILE_NAME, Dataset, open_dataset
from pipeline.data.dataset.selection import select
from pipeline.data.input.batches import training_batches
from pipeline.data.input.service import naming_lost_service, naming_other_dataset, start_servers
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.reading.plan import ReadPlan, plan_reading
from pipeline.data.reading.sharding import Share
from pipeline.data.schema.feature_types import Image, Label
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading
from tests.shared.data_servers import address_of, kill, serving, start
from tests.shared.matrix import quick_cases
from tests.shared.small_run import SCHEMA, rows, write_small_dataset
from tests.shared.tiny_dataset import write_dataset

SLOW = pytest.mark.slow
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
    monkeypatch.setattr("pipeline.data.input.training.GROUP_ROWS", 40)


@pytest.fixture(scope="module")
def three_addresses(warm_python: pathlib.Path) -> Iterator[list[str]]:
    with serving(3, warm_python) as addresses:
        yield addresses


def plan_of(dataset: Dataset, *, shuffle: str = "auto", position: int = 0, **hosts: int) -> ReadPlan:
    share = Share(global_batch=8, **hosts)
    return plan_reading(select(dataset, "train"), share=share, seed=1, position=position, shuffle=shuffle)


def stream_of(plan: ReadPlan, data_service: Sequence[str] = ()) -> tf.data.Dataset:
    dataset = plan.selection.dataset
    preprocess = Preprocess(dataset.schema, loading.load(dataset)["train"])
    return training_batches(plan, preprocess, data_service=data_service)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shuffle", "hosts", "services"),
    [
        ("records", "windows", 2, 2),
        pytest.param("records", "windows", 2, 3, marks=SLOW),
        pytest.param("records", "global", 1, 1, marks=SLOW),
        pytest.param("blocks", "windows", 1, 3, marks=SLOW),
        pytest.param("images", "global", 2, 3, marks=SLOW),
    ],
)
def test_services_give_what_this_host_gives(
    datasets, three_addresses, name: str, shuffle: str, hosts: int, services: int
):
    share = {"replicas": 4, "shard_count": hosts, "shard_index": hosts - 1}
    plan = plan_of(datasets[name], shuffle=shuffle, position=328, **share)
    here, served = (
        list(stream_of(plan, addresses).take(40).as_numpy_iterator())
        for addresses in ((), three_addresses[:services])
    )
    assert len(here) == len(served) == 40
    tf.nest.map_structure(np.testing.assert_array_equal, served, here)


def test_mapped_blocks_are_not_sent(datasets):
    with pytest.raises(InputError, match=r"--data_service: .*Set --config.shuffle=windows"):
        stream_of(plan_of(datasets["blocks"]), ["grpc://localhost:1"])


@pytest.mark.parametrize(
    "address",
    quick_cases(
        ["somewhere", "grpc://localhost", "grpc://localhost:1", "grpc://[::1"], ["grpc://localhost:1"]
    ),
)
@pytest.mark.slow
def test_an_address_where_no_service_answers_is_named(datasets, address: str):
    with pytest.raises(InputError, match=rf"received {re.escape(address)} .*pipeline\.data_service"):
        stream_of(plan_of(datasets["records"]), [address])


@pytest.mark.slow
def test_a_service_that_was_killed_and_started_anew_ends_the_run(datasets, warm_python):
    process = start(python=warm_python)
    addresses = [address_of(process)]
    stream = iter(stream_of(plan_of(datasets["records"]), addresses))
    next(stream)
    kill(process)
    anew = start(f"--port={addresses[0].rpartition(':')[2]}", python=warm_python)
    with pytest.raises(InputError, match="goes on from the last checkpoint"), naming_lost_service(addresses):
        for _ in stream:
            pass
    kill(anew)


def test_a_service_whose_host_has_another_dataset_ends_the_run(datasets, three_addresses, tmp_path):
    here = pathlib.Path(shutil.copytree(datasets["records"].directory, tmp_path / "here"))
    stream = stream_of(plan_of(open_dataset(here)), three_addresses[:1])
    other = write_small_dataset(tmp_path / "other")
    document = json.loads((other.directory / FILE_NAME).read_text())
    (here / FILE_NAME).write_text(json.dumps(document))  # what the service finds at that path
    is_named = pytest.raises(InputError, match=rf"{three_addresses[0]}: received another dataset")
    with is_named, naming_other_dataset():
        next(iter(stream))


@pytest.mark.slow
def test_a_dataset_that_is_swapped_on_a_service_while_it_is_read_ends_the_run(
    datasets, three_addresses, tmp_path
):
    here = pathlib.Path(shutil.copytree(datasets["records"].directory, tmp_path / "here"))
    # By hundreds: a service prepares thousands of batches of small rows at once, and some times ahead.
    stream = iter(stream_of(plan_of(open_dataset(here)), three_addresses[:1]).batch(256))
    next(stream)
    other = write_small_dataset(tmp_path / "other", seed=3)
    shutil.copy(other.directory / FILE_NAME, here / FILE_NAME)
    is_named = pytest.raises(InputError, match=rf"{three_addresses[0]}: received another dataset")
    with is_named, naming_other_dataset():
        for _ in itertools.islice(stream, 1_000):
            pass


@pytest.mark.slow
def test_a_service_whose_host_has_no_dataset_ends_the_run(datasets, three_addresses, tmp_path):
    here = pathlib.Path(shutil.copytree(datasets["records"].directory, tmp_path / "here"))
    stream = stream_of(plan_of(open_dataset(here)), three_addresses[:1])
    (here / FILE_NAME).unlink()
    is_named = pytest.raises(InputError, match=r"received no \S+manifest.json on a service's host")
    with is_named, naming_other_dataset():
        next(iter(stream))


@pytest.mark.parametrize("name", ["port", "worker_port"])
def test_of_two_ports_the_taken_one_is_named(name: str):
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(
            InputError, match=rf"^--{name}={port}: received .*; expected a port that no other"
        ):
            start_servers(**{name: port})
