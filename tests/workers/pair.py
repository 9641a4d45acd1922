"""Two processes in one cluster, which run a function each."""

import json
import os
import pathlib
import signal
import socket
from collections.abc import Callable, Iterator, Sequence

from tests.shared import forked

_MAY_TAKE = 300.0


def faults(
    name: str, body: Callable[[int], None], folder: pathlib.Path, *, expected: Sequence[str]
) -> Iterator[str]:
    """Runs `body` with the number of each worker; what it prints last must be what is expected of it."""
    servers = [socket.create_server(("localhost", 0)) for _ in range(2)]
    addresses = [f"localhost:{server.getsockname()[1]}" for server in servers]
    for server in servers:
        server.close()
    children = [
        forked.start(lambda number=number: _run(body, addresses, number), folder / str(number))
        for number in range(2)
    ]
    for number, child in enumerate(children):
        if not forked.ends_within(child, _MAY_TAKE):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        told = ["", *(folder / str(number) / "stdout").read_text().splitlines()][-1]
        print(f"{name}: worker {number}: {told}", flush=True)
        if told != expected[number]:
            yield f"{name}: worker {number}: {(folder / str(number) / 'stderr').read_text()[-600:]}"


def _run(body: Callable[[int], None], addresses: Sequence[str], number: int) -> None:
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": list(addresses)}, "task": {"type": "worker", "index": number}}
    )
    body(number)
