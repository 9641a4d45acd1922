"""Input pipelines that run on tf.data services elsewhere, in the same order as here, or not at all.

Each of W services has one worker, prepares every W-th turn of the stream, and is read in its turn. A service
of several workers would not do: which of them a client finds at its start, and whether one was lost, changes
what it reads, without an error. The elements are numbered all the same, and the numbers checked: if a service
begins anew, the run ends, and the same command goes on from its last checkpoint.
"""

import contextlib
import socket
import urllib.parse
import uuid
from collections.abc import Iterator, Sequence

import tensorflow as tf

from pipeline.data.errors import InputError
from pipeline.data.graph import as_written

FLAG = "--data_service"
ANSWER_S = 10.0

_OUT_OF_TURN = "an element out of turn"
_service = tf.data.experimental.service


def at_services(prepared: Sequence[tf.data.Dataset], addresses: Sequence[str]) -> tf.data.Dataset:
    """Has each service make the dataset in its place, and takes an element of each in turn.

    Args:
      prepared: endless datasets.
      addresses: grpc://HOST:PORT of `python -m pipeline.data_service`.

    Raises:
      InputError: there is no service at an address.
    """
    job = f"penstock-{uuid.uuid4()}"  # a job by a known name would go on, from where nobody knows
    served = [_served(each, address, job) for each, address in zip(prepared, addresses, strict=True)]
    turns = tf.data.Dataset.range(len(served)).repeat()
    return tf.data.Dataset.choose_from_datasets(served, turns, stop_on_empty_dataset=True)


@contextlib.contextmanager
def naming_lost_service(addresses: Sequence[str]) -> Iterator[None]:
    """Turns what the loss of a service leads to into an InputError."""
    try:
        yield
    except (tf.errors.NotFoundError, tf.errors.InvalidArgumentError, tf.errors.UnavailableError) as error:
        of_service = _OUT_OF_TURN, "dispatcher", "iteration client", "worker"
        if not addresses or not any(words in error.message for words in of_service):
            raise
        raise InputError(
            f"{FLAG}={','.join(addresses)}",
            received="the loss of a service, or one that was started anew",
            expected="the same services from start to end",
            action="See that all of them run, then repeat this command: it goes on from the last checkpoint.",
        ) from None


def _served(prepared: tf.data.Dataset, address: str, job: str) -> tf.data.Dataset:
    _check_answers(address)
    distribute = _service.distribute(_service.ShardingPolicy.OFF, address, job_name=job)
    return prepared.enumerate().apply(distribute).enumerate().map(_checked)


def _check_answers(address: str) -> None:
    """TensorFlow would try for an hour."""
    url = urllib.parse.urlsplit(address)
    try:
        socket.create_connection((url.hostname or "", url.port or 0), timeout=ANSWER_S).close()
    except (OSError, ValueError) as error:
        raise InputError(
            FLAG,
            received=f"{address} ({error})",
            expected="addresses of services that run, such as grpc://localhost:5000",
            action="Start each with `python -m pipeline.data_service`.",
        ) from None


@as_written
def _checked(expected: tf.Tensor, numbered: tuple) -> tuple:
    number, element = numbered
    with tf.control_dependencies([tf.debugging.assert_equal(number, expected, message=_OUT_OF_TURN)]):
        return tf.nest.map_structure(tf.identity, element)
