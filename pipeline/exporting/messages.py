"""Defines TensorFlow Serving's messages for predictions, without its Python package.

That package needs a TensorFlow of its own version, which a TPU machine does not have. Fields and numbers are
those of tensorflow_serving/apis/{model,predict,prediction_log}.proto of TensorFlow Serving 2.21, as far as a
request to predict needs them; all other fields are optional.
"""

import functools
from collections.abc import Mapping

from google.protobuf import descriptor_pool, message_factory, wrappers_pb2
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from tensorflow.core.framework import tensor_pb2

# The gRPC method that answers a PredictRequest with a PredictResponse.
PREDICT = "/tensorflow.serving.PredictionService/Predict"

_PACKAGE = "tensorflow.serving"
_OWN, _TENSOR, _INT64 = f".{_PACKAGE}.", ".tensorflow.TensorProto", ".google.protobuf.Int64Value"

_Fields = Mapping[str, tuple[int, str]]  # number and type of each field; the type of text is empty

_MESSAGES: Mapping[str, _Fields] = {
    # The model's name, its version if it is not the newest, and the signature.
    "ModelSpec": {"name": (1, ""), "version": (2, _INT64), "signature_name": (3, "")},
    "PredictRequest": {
        "model_spec": (1, f"{_OWN}ModelSpec"),
        "inputs": (2, f"{_OWN}PredictRequest.InputsEntry"),
    },
    "PredictResponse": {
        "outputs": (1, f"{_OWN}PredictResponse.OutputsEntry"),
        "model_spec": (2, f"{_OWN}ModelSpec"),
    },
    "PredictLog": {"request": (1, f"{_OWN}PredictRequest"), "response": (2, f"{_OWN}PredictResponse")},
    "PredictionLog": {"predict_log": (6, f"{_OWN}PredictLog")},  # one of several kinds of log
}
_ENTRY: _Fields = {"key": (1, ""), "value": (2, _TENSOR)}  # a map of tensors is a list of them on the wire


def prediction_log(payload: bytes = b"") -> Message:
    """Returns a PredictionLog, empty or parsed: a request to predict, and its response if it was recorded.

    Raises:
      google.protobuf.message.DecodeError: the bytes are not a PredictionLog.
    """
    return _made("PredictionLog", payload)


def predict_request(payload: bytes = b"") -> Message:
    """Returns a PredictRequest, empty or parsed."""
    return _made("PredictRequest", payload)


def predict_response(payload: bytes = b"") -> Message:
    """Returns a PredictResponse, empty or parsed."""
    return _made("PredictResponse", payload)


def _made(name: str, payload: bytes) -> Message:
    message = message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))()
    message.ParseFromString(payload)
    return message


@functools.cache
def _pool() -> DescriptorPool:
    """Returns a pool of our own: an installed package of TensorFlow Serving fills the common one."""
    pool = descriptor_pool.DescriptorPool()
    _add(pool, tensor_pb2.DESCRIPTOR, seen=set())
    _add(pool, wrappers_pb2.DESCRIPTOR, seen=set())
    pool.Add(_file())
    return pool


def _add(pool: DescriptorPool, file: FileDescriptor, *, seen: set[str]) -> None:
    """Adds a file, after those that it imports."""
    if file.name in seen:
        return
    seen.add(file.name)
    for imported in file.dependencies:
        _add(pool, imported, seen=seen)
    pool.AddSerializedFile(file.serialized_pb)


def _file() -> FileDescriptorProto:
    file = FileDescriptorProto(
        name="pipeline/exporting/serving.proto",
        package=_PACKAGE,
        syntax="proto3",
        dependency=[tensor_pb2.DESCRIPTOR.name, wrappers_pb2.DESCRIPTOR.name],
    )
    file.message_type.extend(_message(name, fields) for name, fields in _MESSAGES.items())
    return file


def _message(name: str, fields: _Fields) -> DescriptorProto:
    message = DescriptorProto(name=name)
    for field, (number, of_type) in fields.items():
        is_map = of_type.endswith("Entry")
        message.field.add(
            name=field,
            number=number,
            type=FieldDescriptorProto.TYPE_MESSAGE if of_type else FieldDescriptorProto.TYPE_STRING,
            type_name=of_type or None,
            label=FieldDescriptorProto.LABEL_REPEATED if is_map else FieldDescriptorProto.LABEL_OPTIONAL,
        )
        if is_map:
            entry = _message(of_type.rpartition(".")[2], _ENTRY)
            entry.options.map_entry = True
            message.nested_type.append(entry)
    return message
