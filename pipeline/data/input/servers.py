"""A tf.data service in this process: a dispatcher and its one worker."""

import dataclasses
import socket

import tensorflow as tf

from pipeline.data.errors import InputError

_service = tf.data.experimental.service


@dataclasses.dataclass(frozen=True, kw_only=True)
class Server:
    """Serves as long as this object is held."""

    address: str  # grpc://HOST:PORT
    dispatcher: _service.DispatchServer
    worker: _service.WorkerServer


def start(*, host: str = "localhost", port: int = 0, worker_port: int = 0) -> Server:
    """Starts a service that listens on both ports; 0 stands for a free one.

    Args:
      host: the name by which clients reach this machine.

    Raises:
      InputError: a port is taken.
    """
    try:
        dispatcher = _service.DispatchServer(_service.DispatcherConfig(port=port))
        taken = int(dispatcher.target.rpartition(":")[2])
        own = worker_port or _free_port()
        worker = _service.WorkerServer(
            _service.WorkerConfig(
                dispatcher_address=f"localhost:{taken}", worker_address=f"{host}:{own}", port=own
            )
        )
    except (tf.errors.OpError, RuntimeError) as error:
        raise InputError(
            f"--port={port}, --worker_port={worker_port}",
            received=str(error).splitlines()[0],
            expected="ports that are free",
            action="Choose others.",
        ) from None
    return Server(address=f"grpc://{host}:{taken}", dispatcher=dispatcher, worker=worker)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("", 0))
        return free.getsockname()[1]
