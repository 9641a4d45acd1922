"""Recorded requests to a model with the answers that it must give, as files beside the SavedModel.

`requests.tfrecord` holds a PredictionLog of TensorFlow Serving a call: the request and its response. Whatever
reads TensorFlow Serving's logs reads it. `requests.json` says what the signatures take and give, and on what
the answers were computed.
"""

import dataclasses
import hashlib
import io
import json
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError, Message

from pipeline.data import atomic_files, ordinary_files, self_digest
from pipeline.data.dataset import tfrecord
from pipeline.data.dataset.export_manifest import SERVING_DEFAULT
from pipeline.data.errors import InputError
from pipeline.release.infra import messages

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
    records = tfrecord.frame([_log(call).SerializeToString(deterministic=True) for call in requests.calls])
    document = {
        "format": FORMAT,
        "declared": requests.declared,
        "tolerance": requests.tolerance,
        "computed_by": dict(requests.computed_by),
        "sha256": hashlib.sha256(records).hexdigest(),
    }
    atomic_files.write_bytes(directory / RECORDS_NAME, records)
    atomic_files.write_json(directory / ABOUT_NAME, self_digest.with_digest(document))


def load(directory: pathlib.Path) -> Requests:
    """Raises InputError where a file is missing, damaged, or of a format that this version does not read."""
    about, records = directory / ABOUT_NAME, directory / RECORDS_NAME
    try:
        document = json.loads(ordinary_files.read_bytes(about))
        self_digest.check(document)
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']!r} in place of {FORMAT!r}")
        content = ordinary_files.read_bytes(records)
        if hashlib.sha256(content).hexdigest() != document["sha256"]:
            raise ValueError(f"{RECORDS_NAME} has another SHA-256 than {ABOUT_NAME} says")
        return Requests(
            calls=[_call(messages.prediction_log(payload)) for payload in _payloads(content)],
            declared=document["declared"],
            tolerance=float(document["tolerance"]),
            computed_by=document["computed_by"],
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, DecodeError) as error:
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


def _log(call: Call) -> Message:
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


def _call(log: Message) -> Call:
    request = log.predict_log.request
    return Call(
        signature=request.model_spec.signature_name,
        inputs=arrays(request.inputs),
        outputs=arrays(log.predict_log.response.outputs),
    )


def _tensor(values: np.ndarray) -> bytes:
    return tf.make_tensor_proto(values).SerializeToString(deterministic=True)
