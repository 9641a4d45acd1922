r"""Serves a tf.data service, which prepares training data in place of the host that trains.

On each machine that is to help:

  python -m pipeline.data_service --host=feeder-1 --port=5000 --worker_port=5001

On the host that trains:

  python -m pipeline.train --data_service=grpc://feeder-1:5000,grpc://feeder-2:5000 …

Exact: the batches are those that the training host would make itself, in the same order, whatever the number
of services. Not unbroken: if one of them is lost, the run waits for it; once that is started again, the run
ends with an error, and the same command goes on from the last checkpoint.

Every service needs the dataset under the path that --dataset names. It reads only its part of what is fetched
record by record (images), but all of what is read in windows (small records), of which it prepares its part.
Blocks need --config.shuffle=windows. Evaluation runs on the training host.
"""

from collections.abc import Sequence

from absl import app, flags

from pipeline import quiet  # noqa: F401 - before TensorFlow
from pipeline.data import servers
from pipeline.data.errors import answers_bad_input

_HOST = flags.DEFINE_string("host", "localhost", "Name under which the training host reaches this one.")
_PORT = flags.DEFINE_integer("port", 5000, "Port to listen on; 0 takes a free one.", lower_bound=0)
_WORKER_PORT = flags.DEFINE_integer(
    "worker_port", 0, "Port through which the data goes; 0 takes a free one.", lower_bound=0
)


@answers_bad_input
def main(argv: Sequence[str]) -> None:
    del argv
    server = servers.start(host=_HOST.value, port=_PORT.value, worker_port=_WORKER_PORT.value)
    print(f"serving --data_service={server.address}", flush=True)
    server.dispatcher.join()


if __name__ == "__main__":
    app.run(main)
