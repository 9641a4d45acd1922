"""What other tools need to read the dataset: TFDS's metadata files and tensorflow-metadata's schema."""

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from pipeline.data import blocks
from pipeline.data.feature import Feature
from pipeline.data.features import Categorical, Image, Label, Numeric, Tensor, Text, Tokens
from pipeline.data.manifest import Shard
from pipeline.data.schema import Schema

SCHEMA_PROTO_FILE_NAME = "schema.pbtxt"
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
        _add_domain(feature, entry)
    return text_format.MessageToString(message)


def _add_domain(feature: Feature, entry: schema_pb2.Feature) -> None:
    match feature:
        case Numeric():
            domain = entry.float_domain if feature.dtype == "float32" else entry.int_domain
            if feature.minimum is not None:
                domain.min = type(domain.min)(feature.minimum)
            if feature.maximum is not None:
                domain.max = type(domain.max)(feature.maximum)
        case Categorical(encoding="integer"):
            entry.int_domain.min, entry.int_domain.max = 0, feature.size - 1
            entry.int_domain.is_categorical = True
        case Categorical(vocabulary=vocabulary) if vocabulary:
            entry.string_domain.value.extend(vocabulary)
        case Label(classes=classes) if classes:
            entry.int_domain.min, entry.int_domain.max = 0, len(classes) - 1
            entry.int_domain.is_categorical = True
        case Tokens():
            entry.int_domain.min, entry.int_domain.max = 0, feature.vocabulary_size - 1
        case Image():
            entry.image_domain.SetInParent()
        case Text():
            entry.natural_language_domain.SetInParent()


def _tfds_features(schema: Schema, layout: str) -> dict[str, object]:
    import tensorflow_datasets as tfds

    if layout == "blocks":
        count = tfds.features.Scalar(dtype=np.int64)
        return {blocks.ROWS: tfds.features.Text(doc="rows of fixed width"), blocks.COUNT: count}
    return {feature.name: _tfds_feature(feature) for feature in schema.features}


def _tfds_feature(feature: Feature) -> object:
    import tensorflow_datasets as tfds

    match feature:
        case Image():
            return tfds.features.Image(
                shape=(feature.height or None, feature.width or None, feature.channels),
                encoding_format=None if feature.encoding == "any" else feature.encoding,
            )
        case Label(classes=classes) if classes:
            return tfds.features.ClassLabel(names=classes)
        case Tensor() | Tokens():
            return tfds.features.Tensor(shape=feature.shape, dtype=np.dtype(feature.dtype))
    if feature.dtype == "string":
        return tfds.features.Text()
    return tfds.features.Scalar(dtype=np.dtype(feature.dtype))
