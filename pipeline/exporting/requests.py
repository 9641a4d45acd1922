"""Recorded requests to a model with the answers that it must give, as files beside the SavedModel.

`requests.tfrecord` holds a PredictionLog of TensorFlow Serving a call: the request and its response. Whatever
reads TensorFlow Serving's logs reads it. `requests.json` says what the signatures take and give, and on what
the answers were computed.
"""

import dataclasses
import hashlib
import io
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError, Message

from pipeline.base import documents, files
from pipeline.base.errors import InputError
from pipeline.data.dataset import tfrecord
from pipeline.data.dataset.records import RAW, SERVING_DEFAULT
from pipeline.data.reading import parsing
from pipeline.data.schema.schema import Schema
from pipeline.exporting import messages
from pipeline.exporting import signatures as signatures_lib
from pipeline.exporting.signatures import raw_inputs

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Requests:
    """What a model was asked.

    Attributes:
      declared: of each signature its `inputs` and `outputs`: dtype and shape by name, as JSON has them.
      tolerance: how far an answer may be from the recorded one where another build of TensorFlow or another
        processor computes it, as a share of the largest number of the answer.
      computed_by: see machine.py.
    """

    calls: Sequence[Call]
    declared: Mapping[str, Mapping[str, Mapping[str, list]]]
    tolerance: float
    computed_by: Mapping[str, str]

    @property
    def examples(self) -> np.ndarray:
        """Serialized examples of the largest call, bytes objects [rows]."""
        through = [call.inputs[EXAMPLES] for call in self.calls if call.signature == SERVING_DEFAULT]
        return max(through, key=len)


def save(requests: Requests, directory: pathlib.Path) -> None:
    """Writes both files. The same requests give the same bytes."""
    records = tfrecord.frame(
        [_request_log(call).SerializeToString(deterministic=True) for call in requests.calls]
    )
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


def _request_log(call: Call) -> Message:
    log = messages.prediction_log()
    fill_request(log.predict_log.request, call)
    for name, values in call.outputs.items():
        log.predict_log.response.outputs[name].ParseFromString(_tensor(values))
    return log


def fill_request(request: Message, call: Call, *, model: str = "", version: int | None = None) -> None:
    """Makes a PredictRequest of a call; without a model's name it is one for any model."""
    request.model_spec.name = model
    request.model_spec.signature_name = call.signature
    if version is not None:
        request.model_spec.version.value = version
    for name, values in call.inputs.items():
        request.inputs[name].ParseFromString(_tensor(values))


def arrays(tensors: Mapping[str, Message]) -> dict[str, np.ndarray]:
    """The tensors of a message as arrays."""
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


# --- Asks a model in memory what its export must answer, in batches of several sizes.


Functions = Mapping[str, Callable[..., Mapping[str, tf.Tensor]]]

# TensorFlow computes a product of matrices in other ways for one row, a few and many: each has bits of its
# own. A request without a row is what a client sends whose queue was empty.
_SIZES = (0, 1, 7)

# Roundings of the narrowest type that a layer computes in; float32 sums in another order differ by more.
_TOLERANCES = {"float32": 1e-5, "bfloat16": 8 * 2.0**-8, "float16": 8 * 2.0**-11}


def recorded(functions: Functions, examples: tf.Tensor, *, schema: Schema, model: keras.Model) -> Requests:
    """Requests of all `examples` at once, and of the first few, through both signatures.

    Args:
      functions: the graphs of the model by signature, as `signatures` makes them: eagerly computed, its
        answers have other bits.
      examples: serialized, string [rows].

    Raises:
      InputError: there are no examples.
    """
    if not len(examples):
        raise InputError(
            "requests to be recorded",
            received="no examples",
            expected="one or more",
            action="Take a holdout that has rows, or leave it to the golden examples.",
        )
    return Requests(
        calls=list(_recorded_calls(functions, examples, schema)),
        declared=signatures_lib.declared(schema),
        tolerance=tolerance(model),
        computed_by=computed_by(),
    )


def tolerance(model: keras.Model) -> float:
    """How far two machines may be apart: see Requests. Float64 counts as float32, which it is told in."""
    computed_in = {layer.compute_dtype for layer in model._flatten_layers()}  # no public way (Keras 3.15)
    return max(_TOLERANCES.get(dtype, _TOLERANCES["float32"]) for dtype in computed_in)


def _recorded_calls(functions: Functions, examples: tf.Tensor, schema: Schema) -> Iterator[Call]:
    spec = parsing.parsing_spec(schema, with_label=False)
    for rows in sorted({*(size for size in _SIZES if size < len(examples)), len(examples)}):
        some = examples[:rows]
        yield _recorded_call(SERVING_DEFAULT, {EXAMPLES: some}, functions[SERVING_DEFAULT](some))
        given = raw_inputs(tf.io.parse_example(some, spec), schema)
        yield _recorded_call(RAW, given, functions[RAW](given))


def _recorded_call(signature: str, inputs: Mapping[str, tf.Tensor], outputs: Mapping[str, tf.Tensor]) -> Call:
    return Call(signature=signature, inputs=_arrays(inputs), outputs=_arrays(outputs))


def _arrays(tensors: Mapping[str, tf.Tensor]) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}


# --- Answers of a loaded signature against those that were recorded.


Serve = Callable[..., Mapping[str, tf.Tensor]]

# TensorFlow quotes a request's bytes in its message, which Python cannot always read (2.21).
_REFUSALS = (tf.errors.OpError, UnicodeDecodeError)


class Answers:
    """Compares calls, and keeps what was wrong with them.

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
        """Asks `serve` what the call asks; None: there is no such signature."""
        where = f"'{call.signature}' asked with {call.rows:,} row{'s' * (call.rows != 1)}"
        if serve is None:
            self.reasons.append(f"{where}: there is no such signature")
            return
        try:
            answer = {name: each.numpy() for name, each in serve(**_tensors(call.inputs)).items()}
        except (*_REFUSALS, TypeError, ValueError) as error:
            text = " ".join(str(error).split())
            self.reasons.append(f"{where}: it raised {type(error).__name__}: {text[:300]}")
            return
        self.of_answer(where, answer, call.outputs)

    def of_answer(
        self, where: str, answer: Mapping[str, np.ndarray], recorded: Mapping[str, np.ndarray]
    ) -> None:
        """Compares named arrays; what was not recorded is not looked at, as its signature already is."""
        for name, expected in recorded.items():
            problem = self._problem(answer.get(name), expected)
            if problem:
                self.reasons.append(f"{where}: output '{name}' {problem}")

    def _problem(self, found: np.ndarray | None, expected: np.ndarray) -> str:
        if found is None:
            return "is missing"
        if (found.dtype, found.shape) != (expected.dtype, expected.shape):
            return f"is {_told(found)} where {_told(expected)} was recorded"
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
    """Whether the signature answers serialized examples with an error."""
    try:
        for each in serve(**{EXAMPLES: tf.constant(np.array(examples, object), tf.string)}).values():
            each.numpy()
    except _REFUSALS:
        return True
    return False


def _tensors(inputs: Mapping[str, np.ndarray]) -> dict[str, tf.Tensor]:
    texts = {name: values.dtype == object for name, values in inputs.items()}
    return {
        name: tf.constant(values, tf.string) if texts[name] else tf.constant(values)
        for name, values in inputs.items()
    }


def _share(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference as a share of the largest number expected; 0 of nothing."""
    if not found.size:
        return 0.0
    one, other = found.astype(np.float64), expected.astype(np.float64)
    difference, largest = np.max(np.abs(one - other)), np.max(np.abs(other))
    return float(difference / largest) if largest else float(difference)


def _told(values: np.ndarray) -> str:
    return f"{values.dtype}{list(values.shape)}"


# --- What decides the last bits of a prediction besides the model: TensorFlow's build and the processor.


_CPUINFO = pathlib.Path("/proc/cpuinfo")


def computed_by() -> dict[str, str]:
    """Build and processor of this process. Where two are the same, so are all bits of what they compute.

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
    """Its name as the kernel has it; empty where it has none."""
    text = _CPUINFO.read_text() if _CPUINFO.exists() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1] if found else ""


# --- Warm-up requests where TensorFlow Serving looks for them: it sends them to itself when it loads a
# version.
#
# Without them the first requests of clients pay for tracing and for tables that are filled. See
# https://www.tensorflow.org/tfx/serving/saved_model_warmup.


FILE_NAME = "assets.extra/tf_serving_warmup_requests"

# A server that batches refuses more rows than its max_batch_size, and then does not load the version.
_MOST_ROWS = 8


def write_warmup(requests: Requests, directory: pathlib.Path) -> None:
    """Writes the calls of 1 to 8 rows, both signatures, as PredictionLogs in a TFRecord file."""
    path = directory / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tfrecord.frame([_warmup_log(call) for call in _warmup_calls(requests)]))


def _warmup_calls(requests: Requests) -> Iterator[Call]:
    """Those that any server takes; one without a row would fail."""
    return (call for call in requests.calls if 0 < call.rows <= _MOST_ROWS)


def _warmup_log(call: Call) -> bytes:
    log = messages.prediction_log()
    fill_request(log.predict_log.request, call)
    return log.SerializeToString(deterministic=True)
