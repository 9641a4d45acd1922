"""What other tools need to read the dataset: TFDS's metadata files and tensorflow-metadata's schema."""

import dataclasses
import pathlib
import types
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from pipeline.data.dataset import blocks
from pipeline.data.dataset.manifest import Shard
from pipeline.data.schema.datetime_kind import Datetime
from pipeline.data.schema.feature import Feature
from pipeline.data.schema.kind_table import KindTable
from pipeline.data.schema.kinds import Categorical, Image, Label, Numeric, Tensor, Text, Tokens
from pipeline.data.schema.schema import Schema

_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
_PROTO_TYPE = {"float32": schema_pb2.FLOAT, "int64": schema_pb2.INT, "string": schema_pb2.BYTES}


def write_tfds_metadata(
    schema: Schema,
    splits: Mapping[str, Sequence[Shard]],
    *,
    layout: str,
    version: str,
    directory: pathlib.Path,
) -> None:
    """Writes dataset_info.json, features.json and class names with TFDS itself."""
    # Imported here: this runs once, in the launcher, and workers need not have TFDS.
    import tensorflow_datasets as tfds

    template = tfds.core.ShardedFileTemplate(
        data_dir=directory, template=_TEMPLATE, dataset_name=schema.name, filetype_suffix="tfrecord"
    )
    infos = [
        tfds.core.SplitInfo(
            name=split,
            shard_lengths=[shard.records for shard in shards],
            num_bytes=sum(shard.bytes for shard in shards),
            filename_template=template.replace(split=split),
        )
        for split, shards in splits.items()
    ]
    tfds.folder_dataset.write_metadata(
        data_dir=directory,
        features=tfds.features.FeaturesDict(_tfds_features(schema, layout)),
        split_infos=infos,
        version=version,
        filename_template=template,
        check_data=False,
        supervised_keys=_supervised_keys(schema, layout),
    )


def schema_proto(schema: Schema) -> str:
    """The schema as tensorflow-metadata's text proto."""
    message = schema_pb2.Schema()
    for feature in schema.features:
        entry = message.feature.add(name=feature.name, type=_PROTO_TYPE[feature.dtype])
        entry.presence.min_fraction = 1.0  # every record holds every feature
        entry.shape.SetInParent()
        for size in feature.shape:
            entry.shape.dim.add(size=size)
        _OF_KIND.of(feature).add_domain(feature, entry)
    return text_format.MessageToString(message)


def _tfds_features(schema: Schema, layout: str) -> dict[str, object]:
    import tensorflow_datasets as tfds

    if layout == "blocks":
        count = tfds.features.Scalar(dtype=np.int64)
        return {blocks.ROWS: tfds.features.Text(doc="rows of fixed width"), blocks.COUNT: count}
    return {f.name: _OF_KIND.of(f).tfds_feature(f, tfds.features) for f in schema.features}


def _supervised_keys(schema: Schema, layout: str) -> tuple[str, str] | None:
    """What `as_supervised=True` gives: the input and the label, where there is one of each."""
    labels = schema.of_kind(Label)
    if layout == "blocks" or len(schema.inputs) != 1 or not labels:
        return None
    return schema.inputs[0].name, labels[0].name


def _plain_tfds(feature: Feature, features: types.ModuleType) -> object:
    if feature.dtype == "string":
        return features.Text()
    dtype = np.dtype(feature.dtype)
    return (
        features.Tensor(shape=feature.shape, dtype=dtype) if feature.shape else features.Scalar(dtype=dtype)
    )


def _label_tfds(feature: Label, features: types.ModuleType) -> object:
    if feature.classes:
        return features.ClassLabel(names=feature.classes)
    return _plain_tfds(feature, features)


def _image_tfds(feature: Image, features: types.ModuleType) -> object:
    return features.Image(
        shape=(feature.height or None, feature.width or None, feature.channels),
        encoding_format=None if feature.encoding == "any" else feature.encoding,
    )


def _no_domain(feature: Feature, entry: schema_pb2.Feature) -> None:
    """Type and shape say all."""


def _numeric_domain(feature: Numeric, entry: schema_pb2.Feature) -> None:
    domain = entry.float_domain if feature.dtype == "float32" else entry.int_domain
    low, high = feature.stored_range
    if low is not None:
        domain.min = type(domain.min)(low)
    if high is not None:
        domain.max = type(domain.max)(high)


def _categorical_domain(feature: Categorical, entry: schema_pb2.Feature) -> None:
    if feature.encoding == "integer":
        _add_indices(feature.size, entry, is_categorical=True)
    elif feature.vocabulary:
        entry.string_domain.value.extend(feature.vocabulary)


def _label_domain(feature: Label, entry: schema_pb2.Feature) -> None:
    if feature.classes:
        _add_indices(len(feature.classes), entry, is_categorical=True)


def _image_domain(feature: Image, entry: schema_pb2.Feature) -> None:
    entry.image_domain.SetInParent()


def _text_domain(feature: Text, entry: schema_pb2.Feature) -> None:
    entry.natural_language_domain.SetInParent()


def _tokens_domain(feature: Tokens, entry: schema_pb2.Feature) -> None:
    _add_indices(feature.vocabulary_size, entry, is_categorical=False)


def _time_domain(feature: Datetime, entry: schema_pb2.Feature) -> None:
    entry.time_domain.integer_format = schema_pb2.TimeDomain.UNIX_MICROSECONDS


def _add_indices(size: int, entry: schema_pb2.Feature, *, is_categorical: bool) -> None:
    entry.int_domain.min, entry.int_domain.max = 0, size - 1
    if is_categorical:
        entry.int_domain.is_categorical = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metadata:
    """How other tools are told of one kind.

    `add_domain` completes the feature's proto. `tfds_feature` gets the module `tfds.features` as an argument,
    because workers do not import TFDS.
    """

    add_domain: Callable[[Feature, schema_pb2.Feature], None] = _no_domain
    tfds_feature: Callable[[Feature, types.ModuleType], object] = _plain_tfds


_OF_KIND = KindTable(
    where=__name__,
    tells="how other tools are told of a feature",
    entry="Metadata; its defaults say type and shape alone",
    entries={
        Numeric: Metadata(add_domain=_numeric_domain),
        Categorical: Metadata(add_domain=_categorical_domain),
        Label: Metadata(add_domain=_label_domain, tfds_feature=_label_tfds),
        Image: Metadata(add_domain=_image_domain, tfds_feature=_image_tfds),
        Text: Metadata(add_domain=_text_domain),
        Tokens: Metadata(add_domain=_tokens_domain),
        Tensor: Metadata(),
        Datetime: Metadata(add_domain=_time_domain),
    },
)
