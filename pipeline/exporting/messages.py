"""Defines TensorFlow Serving's messages for predictions, without its Python package.

That package wants a TensorFlow of its own version beside it, which is not there on a TPU. Fields and numbers
are those of tensorflow_serving/apis/{model,predict,prediction_log}.proto of TensorFlow Serving 2.21, as far
as a request to predict needs them; what is left out is optional.
"""

import functools

from google.protobuf import descriptor_pool, message_factory, wrappers_pb2
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from tensorflow.core.framework import tensor_pb2

# The gRPC method that answers a PredictRequest with a PredictResponse.
PREDICT = "/tensorflow.serving.PredictionService/Predict"

_PACKAGE = "tensorflow.serving"
_TENSOR, _INT64 = ".tensorflow.TensorProto", ".google.protobuf.Int64Value"
_OWN = f".{_PACKAGE}."


def prediction_log(payload: bytes = b"") -> Message:
    """Returns a PredictionLog, empty or parsed: a request to predict, and its response if it was recorded.

    Raises:
      google.protobuf.message.DecodeError: the bytes are not one.
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
    file.message_type.extend(
        (
            _model_spec(),
            _with_tensors("PredictRequest", tensors=("inputs", 2), model_spec=1),
            _with_tensors("PredictResponse", tensors=("outputs", 1), model_spec=2),
            _message("PredictLog", request=(1, "PredictRequest"), response=(2, "PredictResponse")),
            _message("PredictionLog", predict_log=(6, "PredictLog")),  # one of several kinds of log
        )
    )
    return file


def _model_spec() -> DescriptorProto:
    """Describes ModelSpec: the model's name, its version if not the newest, the signature."""
    message = DescriptorProto(name="ModelSpec")
    _add_field(message, "name", 1)
    _add_field(message, "version", 2, of_type=_INT64)
    _add_field(message, "signature_name", 3)
    return message


def _with_tensors(name: str, *, tensors: tuple[str, int], model_spec: int) -> DescriptorProto:
    """Describes a message with a ModelSpec and a map of tensors, which is a list of entries on the wire."""
    message = _message(name, model_spec=(model_spec, "ModelSpec"))
    field, number = tensors
    entry = message.nested_type.add(name=f"{field.capitalize()}Entry")
    entry.options.map_entry = True
    _add_field(entry, "key", 1)
    _add_field(entry, "value", 2, of_type=_TENSOR)
    _add_field(
        message,
        field,
        number,
        of_type=f"{_OWN}{name}.{entry.name}",
        label=FieldDescriptorProto.LABEL_REPEATED,
    )
    return message


def _message(name: str, **messages: tuple[int, str]) -> DescriptorProto:
    """Describes a message of messages: field name → the field's number and type."""
    message = DescriptorProto(name=name)
    for field, (number, of_type) in messages.items():
        _add_field(message, field, number, of_type=f"{_OWN}{of_type}")
    return message


def _add_field(
    message: DescriptorProto,
    name: str,
    number: int,
    *,
    of_type: str = "",
    label: int = FieldDescriptorProto.LABEL_OPTIONAL,
) -> None:
    """Adds a field of another message's type, or of text where `of_type` is empty."""
    kind = FieldDescriptorProto.TYPE_MESSAGE if of_type else FieldDescriptorProto.TYPE_STRING
    message.field.add(name=name, number=number, type=kind, type_name=of_type or None, label=label)
