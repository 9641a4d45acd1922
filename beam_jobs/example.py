"""Decodes `tf.train.Example` with protobuf alone: a worker need not have TensorFlow.

The messages are declared here as in tensorflow/core/example/{example,feature}.proto, in a descriptor pool
of their own, so that they do not collide with TensorFlow's where both are loaded.
"""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

_FIELD = descriptor_pb2.FieldDescriptorProto
_LISTS = {"bytes": _FIELD.TYPE_BYTES, "float": _FIELD.TYPE_FLOAT, "int64": _FIELD.TYPE_INT64}


class NotAnExampleError(ValueError):
    """Bytes that are no tf.train.Example."""


def decode(record: bytes) -> dict[str, Message]:
    """The features by name. Each has `WhichOneof("kind")`: bytes_list, float_list or int64_list."""
    try:
        return dict(_Example.FromString(record).features.feature)
    except (DecodeError, UnicodeDecodeError) as error:
        raise NotAnExampleError(str(error)) from None


def _messages() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="penstock", syntax="proto3")
    feature = descriptor_pb2.DescriptorProto(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, kind) in enumerate(_LISTS.items(), start=1):
        values = file.message_type.add(name=f"{name.title()}List")
        values.field.add(name="value", number=1, label=_FIELD.LABEL_REPEATED, type=kind)
        _add_message(feature, f"{name}_list", number, values.name).oneof_index = 0
    file.message_type.append(feature)
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=_FIELD.LABEL_OPTIONAL, type=_FIELD.TYPE_STRING)
    _add_message(entry, "value", 2, "Feature")
    _add_message(features, "feature", 1, "Features.FeatureEntry").label = _FIELD.LABEL_REPEATED
    _add_message(file.message_type.add(name="Example"), "features", 1, "Features")
    return file


def _add_message(
    owner: descriptor_pb2.DescriptorProto, name: str, number: int, kind: str
) -> descriptor_pb2.FieldDescriptorProto:
    return owner.field.add(
        name=name,
        number=number,
        label=_FIELD.LABEL_OPTIONAL,
        type=_FIELD.TYPE_MESSAGE,
        type_name=f".penstock.{kind}",
    )


def _example_class() -> type[Message]:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_messages())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("penstock.Example"))


_Example = _example_class()
