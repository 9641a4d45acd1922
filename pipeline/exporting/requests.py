"""Recorded requests to a model with the answers that it must give, as files beside the SavedModel.

`requests.tfrecord` holds a PredictionLog of TensorFlow Serving for each call: the request and its response.
`requests.json` describes the signatures, and the machine that computed the answers.
"""

import dataclasses
import hashlib
import io
import os
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError, Message

from pipeline.base import documents, files
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
      declared: by signature its `inputs` and `outputs`: dtype and shape by name, as JSON has them.
      tolerance: how far an answer may be from the recorded one where another build of TensorFlow or another
        processor computes it, as a share of the largest number of the answer.
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


# --- Comparison: the answers of a loaded signature, or a server, with the recorded ones.


Serve = Callable[..., Mapping[str, tf.Tensor]]
GARBAGE = b"no serialized example"  # a model must refuse it

# TensorFlow quotes a request's bytes in its message, which Python cannot always read (2.21).
_REFUSALS = (tf.errors.OpError, UnicodeDecodeError)


class Answers:
    """Compares answers with the recorded ones, and collects the differences.

    Attributes:
      worst: the largest difference so far, as a share of the largest number of its answer.
      reasons: a sentence for each output that is not as recorded.
    """

    def __init__(self, *, exact: bool, tolerance: float) -> None:
        self._exact = exact
        self._tolerance = tolerance
        self.worst = 0.0
        self.reasons: list[str] = []

    def compare(self, call: Call, serve: Serve | None) -> None:
        """Makes the call of `serve` and compares its answer; None: there is no such signature."""
        if serve is None:
            self.reasons.append(f"{call}: there is no such signature")
            return
        try:
            answer = numpy_arrays(serve(**_tensors(call.inputs)))
        except (*_REFUSALS, TypeError, ValueError) as error:
            text = " ".join(str(error).split())
            self.reasons.append(f"{call}: it raised {type(error).__name__}: {text[:300]}")
            return
        self.compare_outputs(call, answer)

    def compare_outputs(self, call: Call, answer: Mapping[str, np.ndarray]) -> None:
        """Compares the outputs that were recorded; the check of signatures finds others."""
        for name, expected in call.outputs.items():
            if problem := self._problem(answer.get(name), expected):
                self.reasons.append(f"{call}: output '{name}' {problem}")

    def _problem(self, found: np.ndarray | None, expected: np.ndarray) -> str:
        if found is None:
            return "is missing"
        if (found.dtype, found.shape) != (expected.dtype, expected.shape):
            return f"is {_format_type(found)} where {_format_type(expected)} was recorded"
        if not np.isfinite(found).all():
            return f"holds {np.sum(~np.isfinite(found)):,} values that are NaN or infinite, of {found.size:,}"
        return self._difference(found, expected)

    def _difference(self, found: np.ndarray, expected: np.ndarray) -> str:
        worst = _share(found, expected)
        self.worst = max(self.worst, worst)
        if self._exact and found.tobytes() != expected.tobytes():
            number = np.sum(found != expected)
            return (
                f"differs from the recorded in {number:,} of {found.size:,} values, by up to {worst:.3g} of "
                "the largest; every bit must be the same, on the build and the processor of the recording"
            )
        if not self._exact and worst > self._tolerance:
            return (
                f"differs from the recorded by up to {worst:.3g} of the largest; at most "
                f"{self._tolerance:.3g} is allowed, on another build or processor than the recording's"
            )
        return ""


def refused(serve: Serve, examples: Sequence[bytes]) -> bool:
    """Returns whether the signature answers serialized examples with an error."""
    try:
        numpy_arrays(serve(**{EXAMPLES: tf.constant(np.array(examples, object), tf.string)}))
    except _REFUSALS:
        return True
    return False


def _tensors(inputs: Mapping[str, np.ndarray]) -> dict[str, tf.Tensor]:
    return {
        name: tf.constant(values, tf.string if values.dtype == object else None)
        for name, values in inputs.items()
    }


def _share(found: np.ndarray, expected: np.ndarray) -> float:
    """Returns the largest difference as a share of the largest number expected; 0 for empty arrays."""
    if not found.size:
        return 0.0
    one, other = found.astype(np.float64), expected.astype(np.float64)
    difference, largest = np.max(np.abs(one - other)), np.max(np.abs(other))
    return float(difference / largest) if largest else float(difference)


def _format_type(values: np.ndarray) -> str:
    return f"{values.dtype}{list(values.shape)}"


# --- The machine: TensorFlow's build and the processor decide the last bits of a prediction.


_CPUINFO = pathlib.Path("/proc/cpuinfo")


def computed_by() -> dict[str, str]:
    """Describes build and processor of this process. Two that are the same compute the same bits.

    A matrix product is cut into as many parts as there are processors, and summed in their order.
    """
    return {
        "tensorflow": f"{tf.version.VERSION} {tf.version.GIT_VERSION}",
        "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", ""),
        "processor": _processor(),
        "processors": str(len(os.sched_getaffinity(0))),
        "devices": " ".join(sorted({device.device_type for device in tf.config.list_physical_devices()})),
    }


def _processor() -> str:
    """Returns the processor's name from the kernel; empty where it has none."""
    text = _CPUINFO.read_text() if _CPUINFO.exists() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1] if found else ""


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
