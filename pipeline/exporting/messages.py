"""TensorFlow Serving's messages for predictions, without its Python package.

That package wants a TensorFlow of its own version beside it, which is not there on a TPU. Fields and numbers
are those of tensorflow_serving/apis/{model,predict,prediction_log}.proto of TensorFlow Serving 2.21, as far
as a request to predict needs them; what is left out is optional.
"""

import functools

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, wrappers_pb2
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from tensorflow.core.framework import tensor_pb2

# The gRPC method that answers a PredictRequest with a PredictResponse.
PREDICT = "/tensorflow.serving.PredictionService/Predict"

_PACKAGE = "tensorflow.serving"
_Field = descriptor_pb2.FieldDescriptorProto
_TENSOR, _INT64 = ".tensorflow.TensorProto", ".google.protobuf.Int64Value"
_OWN = f".{_PACKAGE}."


def prediction_log(payload: bytes = b"") -> Message:
    """A PredictionLog, empty or as serialized: a request to predict, and its response if it was recorded.

    Raises:
      google.protobuf.message.DecodeError: the bytes are none.
    """
    return _made("PredictionLog", payload)


def predict_request(payload: bytes = b"") -> Message:
    """A PredictRequest, empty or as serialized."""
    return _made("PredictRequest", payload)


def predict_response(payload: bytes = b"") -> Message:
    """A PredictResponse, empty or as serialized."""
    return _made("PredictResponse", payload)


def _made(name: str, payload: bytes) -> Message:
    message = message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))()
    message.ParseFromString(payload)
    return message


@functools.cache
def _pool() -> DescriptorPool:
    """One of our own: where TensorFlow Serving's package is installed, its files are in the common one."""
    pool = descriptor_pool.DescriptorPool()
    _add(pool, tensor_pb2.DESCRIPTOR, seen=set())
    _add(pool, wrappers_pb2.DESCRIPTOR, seen=set())
    pool.Add(_file())
    return pool


def _add(pool: DescriptorPool, file: FileDescriptor, *, seen: set[str]) -> None:
    """Adds a file after those that it imports."""
    if file.name in seen:
        return
    seen.add(file.name)
    for imported in file.dependencies:
        _add(pool, imported, seen=seen)
    pool.AddSerializedFile(file.serialized_pb)


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
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


def _model_spec() -> descriptor_pb2.DescriptorProto:
    """ModelSpec: the model's name, its version if not the newest, the signature."""
    message = _message("ModelSpec")
    message.field.add(name="name", number=1, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
    message.field.add(
        name="version", number=2, type=_Field.TYPE_MESSAGE, type_name=_INT64, label=_Field.LABEL_OPTIONAL
    )
    message.field.add(name="signature_name", number=3, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
    return message


def _with_tensors(name: str, *, tensors: tuple[str, int], model_spec: int) -> descriptor_pb2.DescriptorProto:
    """A message with a ModelSpec, and a map from names to tensors, which is a list of entries on the wire."""
    message = _message(name, model_spec=(model_spec, "ModelSpec"))
    field, number = tensors
    entry = f"{field.capitalize()}Entry"
    nested = message.nested_type.add(name=entry)
    nested.options.map_entry = True
    nested.field.add(name="key", number=1, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
    nested.field.add(
        name="value", number=2, type=_Field.TYPE_MESSAGE, type_name=_TENSOR, label=_Field.LABEL_OPTIONAL
    )
    message.field.add(
        name=field,
        number=number,
        type=_Field.TYPE_MESSAGE,
        type_name=f"{_OWN}{name}.{entry}",
        label=_Field.LABEL_REPEATED,
    )
    return message


def _message(name: str, **messages: tuple[int, str]) -> descriptor_pb2.DescriptorProto:
    """A message of messages, each by its field's name, with the field's number and its type."""
    made = descriptor_pb2.DescriptorProto(name=name)
    for field, (number, of_type) in messages.items():
        made.field.add(
            name=field,
            number=number,
            type=_Field.TYPE_MESSAGE,
            type_name=f"{_OWN}{of_type}",
            label=_Field.LABEL_OPTIONAL,
        )
    return made
