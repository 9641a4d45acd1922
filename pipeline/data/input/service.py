"""Input pipelines that run on tf.data services: they give the order of this host, or an error.

Each of W services has one worker, prepares every W-th turn of the stream, and is read in its turn. Services
of several workers are no alternative: what a client then reads depends, without an error, on which workers it
finds at its start and on whether one was lost. The elements are numbered and the numbers checked: if a
service starts again, the run ends, and the same command goes on from its last checkpoint.
"""

import contextlib
import socket
import urllib.parse
import uuid
from collections.abc import Iterator, Sequence

import tensorflow as tf

from pipeline.data.errors import InputError
from pipeline.data.tracing import as_written

FLAG = "--data_service"
_ANSWER_S = 10.0

_OUT_OF_TURN = "an element out of turn"
_service = tf.data.experimental.service


def at_services(prepared: Sequence[tf.data.Dataset], addresses: Sequence[str]) -> tf.data.Dataset:
    """Runs each dataset on the service at the same index, and takes an element of each in turn.

    Args:
      prepared: endless datasets, as many as addresses.
      addresses: grpc://HOST:PORT of `python -m pipeline.data_service`.

    Raises:
      InputError: no service answers at an address.
    """
    job = f"penstock-{uuid.uuid4()}"  # a job of a known name would go on from an unknown position
    served = [_served(each, address, job) for each, address in zip(prepared, addresses, strict=True)]
    turns = tf.data.Dataset.range(len(served)).repeat()
    return tf.data.Dataset.choose_from_datasets(served, turns, stop_on_empty_dataset=True)


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


def _served(prepared: tf.data.Dataset, address: str, job: str) -> tf.data.Dataset:
    _check_answers(address)
    distribute = _service.distribute(_service.ShardingPolicy.OFF, address, job_name=job)
    return prepared.enumerate().apply(distribute).enumerate().map(_checked)


def _check_answers(address: str) -> None:
    """Raises InputError if nothing answers, where TensorFlow would try for an hour."""
    url = urllib.parse.urlsplit(address)
    try:
        socket.create_connection((url.hostname or "", url.port or 0), timeout=_ANSWER_S).close()
    except (OSError, ValueError) as error:
        raise InputError(
            FLAG,
            received=f"{address} ({error})",
            expected="addresses of running services, such as grpc://localhost:5000",
            action="Start each with `python -m pipeline.data_service`.",
        ) from None


@as_written
def _checked(expected: tf.Tensor, numbered: tuple) -> tuple:
    number, element = numbered
    with tf.control_dependencies([tf.debugging.assert_equal(number, expected, message=_OUT_OF_TURN)]):
        return tf.nest.map_structure(tf.identity, element)
