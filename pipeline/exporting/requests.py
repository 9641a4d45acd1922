"""Recorded requests to a model with the answers that it must give, as files beside the SavedModel.

`requests.tfrecord` holds a PredictionLog of TensorFlow Serving for each call: the request and its response.
`requests.json` describes the signatures, and the machine that computed the answers.
"""

import dataclasses
import hashlib
import io
import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError, Message

from pipeline.base import documents, files, machine
from pipeline.base.errors import InputError
from pipeline.data.dataset import tfrecord
from pipeline.data.dataset.records import SERVING_DEFAULT
from pipeline.exporting import messages

FORMAT = "penstock.requests/1"
RECORDS_NAME = "requests.tfrecord"
ABOUT_NAME = "requests.json"
EXAMPLES = "examples"  # what `serving_default` takes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Call:
    """One request and its answer: named arrays, all of them [rows, …]; text is an array of bytes objects."""

    signature: str
    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]

    @property
    def rows(self) -> int:
        return len(next(iter(self.inputs.values())))

    def __str__(self) -> str:
        return f"'{self.signature}' asked with {self.rows:,} row{'s' * (self.rows != 1)}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Requests:
    """The recorded calls of a model.

    Attributes:
      declared: for each signature its `inputs` and `outputs`: dtype and shape by name, as in JSON.
      tolerance: how far an answer of another build of TensorFlow or another processor may be from the
        recorded one, as a share of the answer's largest number.
      computed_by: see the function of that name.
    """

    calls: Sequence[Call]
    declared: Mapping[str, Mapping[str, Mapping[str, list]]]
    tolerance: float
    computed_by: Mapping[str, str]

    @property
    def examples(self) -> np.ndarray:
        """The serialized examples of the largest call, bytes objects [rows]."""
        through = [call.inputs[EXAMPLES] for call in self.calls if call.signature == SERVING_DEFAULT]
        return max(through, key=len)


def save(requests: Requests, directory: pathlib.Path) -> None:
    """Writes both files. The same requests give the same bytes."""
    records = tfrecord.frame([_log(call, with_answer=True) for call in requests.calls])
    document = {
        "format": FORMAT,
        "declared": requests.declared,
        "tolerance": requests.tolerance,
        "computed_by": dict(requests.computed_by),
        "sha256": hashlib.sha256(records).hexdigest(),
    }
    files.write_bytes(directory / RECORDS_NAME, records)
    documents.write(directory / ABOUT_NAME, document)


def load(directory: pathlib.Path) -> Requests:
    """Raises InputError where a file is missing, damaged, or of a format that this version does not read."""
    about, records = directory / ABOUT_NAME, directory / RECORDS_NAME
    try:
        document = documents.read(about, file_format=FORMAT)
        content = files.read_bytes(records)
        if hashlib.sha256(content).hexdigest() != document["sha256"]:
            raise ValueError(f"{RECORDS_NAME} has another SHA-256 than {ABOUT_NAME} says")
        return Requests(
            calls=[_request_call(messages.prediction_log(payload)) for payload in _payloads(content)],
            declared=document["declared"],
            tolerance=float(document["tolerance"]),
            computed_by=document["computed_by"],
        )
    except (*documents.UNREADABLE, DecodeError) as error:
        raise InputError(
            f"recorded requests {records}",
            received=str(error) or repr(error),
            expected=f"{RECORDS_NAME} and {ABOUT_NAME} as the export wrote them",
            action="Restore both from a copy, or export the model again.",
        ) from None


def _payloads(content: bytes) -> list[bytes]:
    found = list(tfrecord.read_records(io.BytesIO(content), len(content)))
    for each in found:
        if isinstance(each, tfrecord.DamagedFrame):
            raise ValueError(each.reason)
    return [each.payload for each in found]


def _log(call: Call, *, with_answer: bool = False) -> bytes:
    log = messages.prediction_log()
    fill_request(log.predict_log.request, call)
    for name, values in call.outputs.items() if with_answer else ():
        log.predict_log.response.outputs[name].ParseFromString(_tensor(values))
    return log.SerializeToString(deterministic=True)


def fill_request(request: Message, call: Call, *, model: str = "", version: int | None = None) -> None:
    """Fills a PredictRequest from a call; without a model's name it fits any model."""
    request.model_spec.name = model
    request.model_spec.signature_name = call.signature
    if version is not None:
        request.model_spec.version.value = version
    for name, values in call.inputs.items():
        request.inputs[name].ParseFromString(_tensor(values))


def arrays(tensors: Mapping[str, Message]) -> dict[str, np.ndarray]:
    """Returns the tensors of a message as arrays."""
    return {name: tf.make_ndarray(tensors[name]) for name in sorted(tensors)}


def _request_call(log: Message) -> Call:
    request = log.predict_log.request
    return Call(
        signature=request.model_spec.signature_name,
        inputs=arrays(request.inputs),
        outputs=arrays(log.predict_log.response.outputs),
    )


def _tensor(values: np.ndarray) -> bytes:
    return tf.make_tensor_proto(values).SerializeToString(deterministic=True)


def numpy_arrays(tensors: Mapping[str, tf.Tensor]) -> dict[str, np.ndarray]:
    """Returns the values of tensors by name."""
    return {name: tensor.numpy() for name, tensor in tensors.items()}


# --- The machine: TensorFlow's build and the processor decide the last bits of a prediction.


def computed_by() -> dict[str, str]:
    """Describes build and processor of this process. Two processes with equal descriptions compute the same
    bits.

    The number of processors counts, because a matrix product is cut into so many parts, which are summed in
    order.
    """
    return {
        "tensorflow": f"{tf.version.VERSION} {tf.version.GIT_VERSION}",
        "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", ""),
        "processor": machine.processor("model name"),
        "processors": str(len(os.sched_getaffinity(0))),
        "devices": " ".join(sorted({device.device_type for device in tf.config.list_physical_devices()})),
    }


# --- Warm-up: TensorFlow Serving sends these requests to itself when it loads a version.


FILE_NAME = "assets.extra/tf_serving_warmup_requests"

# A server that batches refuses more rows than its max_batch_size, and then does not load the version.
_MOST_ROWS = 8


def write_warmup(requests: Requests, directory: pathlib.Path) -> None:
    """Writes the calls of 1 to 8 rows, both signatures, as PredictionLogs in a TFRecord file.

    Without them the first requests of clients pay for tracing and for filling tables. See
    https://www.tensorflow.org/tfx/serving/saved_model_warmup. A request without a row would fail.
    """
    path = directory / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    calls = [call for call in requests.calls if 0 < call.rows <= _MOST_ROWS]
    path.write_bytes(tfrecord.frame([_log(call) for call in calls]))
