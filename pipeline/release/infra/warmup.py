"""Warm-up requests where TensorFlow Serving looks for them: it sends them to itself when it loads a version.

Without them the first requests of clients pay for tracing and for tables that are filled. See
https://www.tensorflow.org/tfx/serving/saved_model_warmup.
"""

import pathlib
from collections.abc import Iterator

from pipeline.data.dataset import tfrecord
from pipeline.release.infra import messages
from pipeline.release.infra.requests import Call, Requests, fill_request

FILE_NAME = "assets.extra/tf_serving_warmup_requests"

# A server that batches refuses more rows than its max_batch_size, and then does not load the version.
_MOST_ROWS = 8


def write(requests: Requests, directory: pathlib.Path) -> None:
    """Writes the calls of 1 to 8 rows, both signatures, as PredictionLogs in a TFRecord file."""
    path = directory / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tfrecord.frame([_log(call) for call in _calls(requests)]))


def _calls(requests: Requests) -> Iterator[Call]:
    """Those that any server takes; one without a row would fail."""
    return (call for call in requests.calls if 0 < call.rows <= _MOST_ROWS)


def _log(call: Call) -> bytes:
    log = messages.prediction_log()
    fill_request(log.predict_log.request, call)
    return log.SerializeToString(deterministic=True)
