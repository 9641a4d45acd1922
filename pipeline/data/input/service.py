"""Input pipelines that run on tf.data services: they give the same order as this host, or an error.

Each of W services has one worker. It prepares every W-th turn of the stream, and the services are read in
turn. Where rows are read in windows, it prepares a run of every global batch, and all services are read side
by side. One service with several workers would not do: the rows that a client reads would depend, without an
error, on the workers that it finds at its start, and on whether one of them is lost. The elements are
numbered and the numbers checked: if a service starts again, the run ends, and the same command goes on from
its last checkpoint. With every element (every sixteenth, where manifests are large) a service sends the
fingerprint of the manifests on its host: another dataset under the same path ends the run too.
"""

import contextlib
import dataclasses
import pathlib
import re
import socket
import urllib.parse
import uuid
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.base.tracing import no_autograph
from pipeline.data.dataset.manifest import FILE_NAME

FLAG = "--data_service"
_ANSWER_S = 10.0

_JOINED_AT_ONCE = 2  # turns: joining them copies everything that the services give
_OUT_OF_TURN = "an element out of turn"
_OTHER_DATASET = "another dataset"
# An element may hold the rows of hundreds of steps. Manifests of up to 1 MiB are read with each element;
# larger ones (a manifest of 100,000 shards has 40 MB) with every sixteenth.
_SMALL_BYTES, _SENT_EVERY = 1 << 20, 16
_service = tf.data.experimental.service


def in_turn(
    prepared: Sequence[tf.data.Dataset], addresses: Sequence[str], *, manifests: Sequence[str] = ()
) -> tf.data.Dataset:
    """Runs each dataset on the service of the same index, and takes their elements in turn.

    Args:
      prepared: endless datasets, as many as addresses.
      addresses: grpc://HOST:PORT of `python -m pipeline.data_service`.
      manifests: paths of files that must be equal on this host and on the services' hosts.

    Raises:
      InputError: no service answers at an address.
    """
    served = _all_served(prepared, addresses, manifests)
    turns = tf.data.Dataset.range(len(served)).repeat()
    return tf.data.Dataset.choose_from_datasets(served, turns, stop_on_empty_dataset=True)


def side_by_side(
    prepared: Sequence[tf.data.Dataset],
    addresses: Sequence[str],
    *,
    runs: int,
    manifests: Sequence[str] = (),
) -> tf.data.Dataset:
    """Runs each dataset on the service of the same index, and joins one element of each.

    Args:
      prepared, addresses, manifests: as for `in_turn`. An element, [runs * n, …], holds n examples of each of
        `runs` global batches; n may differ between datasets. The result has the examples of one global batch
        together.
    """

    def joined(*parts: tf.Tensor) -> tf.Tensor:
        cut = [tf.reshape(part, [runs, part.shape[0] // runs, *part.shape[1:]]) for part in parts]
        return tf.reshape(tf.concat(cut, axis=1), [-1, *parts[0].shape[1:]])

    @no_autograph
    def join(*elements: tuple) -> tuple:
        return tf.nest.map_structure(joined, *elements)

    turns = tf.data.Dataset.zip(tuple(_all_served(prepared, addresses, manifests)))
    return turns.map(join, num_parallel_calls=_JOINED_AT_ONCE, deterministic=True)


def _all_served(
    prepared: Sequence[tf.data.Dataset], addresses: Sequence[str], manifests: Sequence[str]
) -> list[tf.data.Dataset]:
    job = f"penstock-{uuid.uuid4()}"  # a job with a known name would continue from an unknown position
    here = int(_fingerprint(manifests))
    return [
        _served(_with_fingerprints(each, manifests, here), address, job).map(_checked(address, here))
        for each, address in zip(prepared, addresses, strict=True)
    ]


@contextlib.contextmanager
def naming_lost_service(addresses: Sequence[str]) -> Iterator[None]:
    """Turns the errors that follow from the loss of a service into an InputError."""
    try:
        yield
    except (tf.errors.NotFoundError, tf.errors.InvalidArgumentError, tf.errors.UnavailableError) as error:
        of_service = _OUT_OF_TURN, "dispatcher", "iteration client", "worker"
        if not addresses or not any(words in error.message for words in of_service):
            raise
        raise InputError(
            f"{FLAG}={','.join(addresses)}",
            received="the loss or restart of a service",
            expected="the same services from start to end",
            action="Check that all run, then repeat this command: it goes on from the last checkpoint.",
        ) from None


@contextlib.contextmanager
def naming_other_dataset() -> Iterator[None]:
    """Turns the error over a service whose host has another dataset into an InputError."""
    try:
        yield
    except (tf.errors.NotFoundError, tf.errors.InvalidArgumentError) as error:
        found = re.search(rf"{_OTHER_DATASET} at ([^]\s]+)", error.message)
        lacking = re.search(r"(/\S+); No such file", error.message)
        if not found and not (lacking and _is_of_a_service(pathlib.Path(lacking[1]))):
            raise
        raise InputError(
            f"{FLAG}={found[1]}" if found else FLAG,
            received="another dataset on that host" if found else f"no {lacking[1]} on a service's host",
            expected="the dataset of this host, under the same path",
            action="Copy it there, or mount the same file system; then repeat this command: it goes on from "
            "the last checkpoint.",
        ) from None


def _is_of_a_service(lacking: pathlib.Path) -> bool:
    """Returns whether a service's host lacks the file. Manifests are read only there, so the file may exist
    here.
    """
    return lacking.name == FILE_NAME or lacking.exists()


def _with_fingerprints(prepared: tf.data.Dataset, manifests: Sequence[str], here: int) -> tf.data.Dataset:
    """Adds to each element its number and, where due, the fingerprint of the service's manifests.

    The manifests are read after the element's rows: so rows of another dataset come with another fingerprint.
    """
    are_small = sum(pathlib.Path(path).stat().st_size for path in manifests) <= _SMALL_BYTES
    every = 1 if are_small else _SENT_EVERY

    @no_autograph
    def with_fingerprint(number: tf.Tensor, element: tuple) -> tuple:
        is_due = number % every == 0
        found = tf.cond(is_due, lambda: _fingerprint(manifests, number), lambda: tf.constant(here, tf.int64))
        return number, found, element

    return prepared.enumerate().map(with_fingerprint)


def _fingerprint(paths: Sequence[str], number: int | tf.Tensor = 0) -> tf.Tensor:
    """A hash of files, int64 []; it is computed on the host that computes element `number`, at that time."""
    # The path depends on `number`, because TensorFlow (2.21) reads the file of a constant path only once.
    zero = tf.minimum(tf.cast(number, tf.int64), 0)
    contents = [tf.io.read_file(tf.gather([path], zero)) for path in paths]
    return tf.strings.to_hash_bucket_fast(tf.strings.join(contents) if contents else "", tf.int64.max)


def _served(prepared: tf.data.Dataset, address: str, job: str) -> tf.data.Dataset:
    _check_answers(address)
    distribute = _service.distribute(_service.ShardingPolicy.OFF, address, job_name=job)
    return prepared.apply(distribute).enumerate()


def _check_answers(address: str) -> None:
    """Raises InputError if nothing answers; TensorFlow would try for an hour."""
    try:
        url = urllib.parse.urlsplit(address)
        socket.create_connection((url.hostname or "", url.port or 0), timeout=_ANSWER_S).close()
    except (OSError, ValueError) as error:
        raise InputError(
            FLAG,
            received=f"{address} ({error})",
            expected="addresses of running services, such as grpc://localhost:5000",
            action="Start each with `python -m pipeline.data_service`.",
        ) from None


def _checked(address: str, here: int) -> Callable[..., tuple]:
    @no_autograph
    def checked(expected: tf.Tensor, sent: tuple) -> tuple:
        number, found, element = sent
        sound = (
            tf.debugging.assert_equal(number, expected, message=_OUT_OF_TURN),
            tf.debugging.assert_equal(found, here, message=f"{_OTHER_DATASET} at {address}"),
        )
        with tf.control_dependencies(sound):
            return tf.nest.map_structure(tf.identity, element)

    return checked


# --- A tf.data service in this process: a dispatcher and its one worker.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Server:
    """Serves as long as this object is held."""

    address: str  # grpc://HOST:PORT
    dispatcher: _service.DispatchServer
    worker: _service.WorkerServer


def start_servers(*, host: str = "localhost", port: int = 0, worker_port: int = 0) -> Server:
    """Starts a service that listens on both ports; 0 stands for a free one.

    Args:
      host: the name by which clients reach this machine.

    Raises:
      InputError: a port is taken.
    """
    with _naming_taken(f"--port={port}"):
        dispatcher = _service.DispatchServer(_service.DispatcherConfig(port=port))
    taken = int(dispatcher.target.rpartition(":")[2])
    own = worker_port or _free_port()
    with _naming_taken(f"--worker_port={worker_port}"):
        worker = _service.WorkerServer(
            _service.WorkerConfig(
                dispatcher_address=f"localhost:{taken}", worker_address=f"{host}:{own}", port=own
            )
        )
    return Server(address=f"grpc://{host}:{taken}", dispatcher=dispatcher, worker=worker)


@contextlib.contextmanager
def _naming_taken(flag: str) -> Iterator[None]:
    try:
        yield
    except (tf.errors.OpError, RuntimeError) as error:
        raise InputError(
            flag,
            received=str(error).splitlines()[0],
            expected="a port that no other program listens on",
            action="Choose another, or 0 for a free one.",
        ) from None


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("", 0))
        return free.getsockname()[1]
