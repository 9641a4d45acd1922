r"""Serves a tf.data service, which prepares training data in place of the host that trains.

On each machine that is to help:

  python -m pipeline.data_service --host=feeder-1 --port=5000 --worker_port=5001

On the host that trains:

  python -m pipeline.train --data_service=grpc://feeder-1:5000,grpc://feeder-2:5000 …

The batches are exactly those that the training host would make itself, in the same order, whatever the number
of services. If a service is lost, the run waits for it. Once the service is started again, the run ends with
an error, and the same command continues from the last checkpoint.

Every service needs the dataset under the path that --dataset names. It reads only its part of the data.
There are two exceptions: it reads the whole of a mixture, and of images in windows that mixup or cutmix
mixes, but prepares only its part. Blocks need --config.shuffle=windows. Evaluation runs on the training host.

There is no authentication: TensorFlow listens on every interface of this host, and whoever reaches the ports
reads the data, and whatever else this user can read. Use it in a closed network.
"""

if __name__ == "__main__":  # Ctrl-C may come while the imports below run
    from pipeline.base.cli import signals

    signals.handle_signals()

import threading
from collections.abc import Sequence

from absl import flags

from pipeline.base.cli.command import Command
from pipeline.base.cli.run import run_command

_HOST = flags.DEFINE_string(
    "host",
    "localhost",
    "NAME: how the training host reaches this one. It does not limit who can connect: see above.",
)
_LAST_PORT = (1 << 16) - 1  # TensorFlow takes a larger number modulo 65,536
_PORT = flags.DEFINE_integer("port", 5000, "Port to listen on. 0 takes a free one.", 0, _LAST_PORT)
_WORKER_PORT = flags.DEFINE_integer(
    "worker_port", 0, "Port through which the data goes. 0 takes a free one.", 0, _LAST_PORT
)


COMMAND = Command(
    name="pipeline.data_service",
    description=__doc__,
    flags={"Where it listens": (_HOST, _PORT, _WORKER_PORT)},
)


def main(argv: Sequence[str]) -> None:
    del argv
    # Imported here: TensorFlow takes seconds, and --help or a wrong flag should not.
    from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

    # isort: split
    from pipeline.data.input import service

    server = service.start_servers(host=_HOST.value, port=_PORT.value, worker_port=_WORKER_PORT.value)
    print(f"serving --data_service={server.address}", flush=True)
    threading.Event().wait()  # unlike server.dispatcher.join(), Ctrl-C ends it


if __name__ == "__main__":
    run_command(main, COMMAND)
