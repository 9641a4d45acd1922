"""A tf.data service in this process: a dispatcher and its one worker."""

import dataclasses
import socket

import tensorflow as tf

from pipeline.data.errors import InputError

_service = tf.data.experimental.service


@dataclasses.dataclass(frozen=True, kw_only=True)
class Server:
    """Serves as long as it is held."""

    address: str  # grpc://HOST:PORT
    dispatcher: _service.DispatchServer
    worker: _service.WorkerServer


def start(*, host: str = "localhost", port: int = 0, worker_port: int = 0) -> Server:
    """Listens on both ports, in place of 0 on a free one.

    Args:
      host: name under which clients reach this machine.

    Raises:
      InputError: a port is taken.
    """
    try:
        dispatcher = _service.DispatchServer(_service.DispatcherConfig(port=port))
    except (tf.errors.OpError, RuntimeError) as error:
        raise InputError(
            f"--port={port}",
            received=str(error).splitlines()[0],
            expected="a port that is free",
            action="Choose another one.",
        ) from None
    taken = int(dispatcher.target.rpartition(":")[2])
    own = worker_port or free_port()
    config = _service.WorkerConfig(
        dispatcher_address=f"localhost:{taken}", worker_address=f"{host}:{own}", port=own
    )
    return Server(
        address=f"grpc://{host}:{taken}", dispatcher=dispatcher, worker=_service.WorkerServer(config)
    )


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("", 0))
        return free.getsockname()[1]
