"""`tf.train.Example` without TensorFlow: the message is declared here, and told from similar ones.

Messages: tensorflow/core/example/{example,feature}.proto. SequenceExample and ExampleListWithContext (of
TF-Ranking) share its first field. They would parse as an Example with half of the data gone.
"""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.message import DecodeError, Message

_FILE = """
name: "penstock_example.proto" package: "penstock" syntax: "proto3"
message_type { name: "BytesList" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_BYTES } }
message_type { name: "FloatList" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_FLOAT } }
message_type { name: "Int64List" field { name: "value" number: 1 label: LABEL_REPEATED type: TYPE_INT64 } }
message_type { name: "Feature" oneof_decl { name: "kind" }
  field { name: "bytes_list" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE
          type_name: ".penstock.BytesList" oneof_index: 0 }
  field { name: "float_list" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE
          type_name: ".penstock.FloatList" oneof_index: 0 }
  field { name: "int64_list" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE
          type_name: ".penstock.Int64List" oneof_index: 0 } }
message_type { name: "Features"
  field { name: "feature" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE
          type_name: ".penstock.Features.FeatureEntry" }
  nested_type { name: "FeatureEntry" options { map_entry: true }
    field { name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
    field { name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE
            type_name: ".penstock.Feature" } } }
message_type { name: "Example"
  field { name: "features" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE
          type_name: ".penstock.Features" } }
"""
_FEATURES_TAG = 0x0A  # field 1, length-delimited
_RELATIVES_TAG = 0x12  # field 2: feature_lists of a SequenceExample, context of an ExampleListWithContext


class NoExampleError(ValueError):
    """A record is no `tf.train.Example`; the message says what it is instead."""


def _message_class() -> type[Message]:
    # In a separate pool the name cannot collide with TensorFlow's own declaration.
    pool = descriptor_pool.DescriptorPool()
    file = text_format.Parse(_FILE, descriptor_pb2.FileDescriptorProto())
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("penstock.Example"))


_Example = _message_class()


def features_of(record: bytes) -> dict[str, Message]:
    """The `Feature` of each key; raises NoExampleError unless `record` is one Example."""
    tags = _top_level_tags(record)
    if _RELATIVES_TAG in tags:
        raise NoExampleError("a SequenceExample or an ExampleListWithContext, not a tf.train.Example")
    if set(tags) == {_FEATURES_TAG} and len(tags) > 1:
        raise NoExampleError("an ExampleListWithContext or another list, not a tf.train.Example")
    if tags not in ([], [_FEATURES_TAG]):
        raise NoExampleError("not a tf.train.Example")
    try:
        entries = _Example.FromString(record).features.feature
    except DecodeError:
        raise NoExampleError("not a tf.train.Example") from None
    features = {name: entries[name] for name in entries}
    if not "".join(features).isprintable():
        raise NoExampleError("not a tf.train.Example")  # one message deeper, as in a list of Examples
    return features


def _top_level_tags(record: bytes) -> list[int]:
    """The tags of a message whose fields are all length-delimited; [-1] if `record` is no such message."""
    tags, at = [], 0
    while at < len(record):
        tags.append(record[at])
        length, shift, at = 0, 0, at + 1
        while at < len(record):
            byte = record[at]
            length |= (byte & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if byte < 0x80:
                break
        at += length
    return tags if at == len(record) else [-1]
