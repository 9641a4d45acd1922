"""The other ways to write a TFRecord dataset, each as its own documentation shows it.

python -m benchmarks.conversion.peers NAME WORKLOAD INPUT OUTPUT
"""

import csv
import os
import pathlib
import sys
from collections.abc import Callable, Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import apache_beam as beam
import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds_lib
from apache_beam.options.pipeline_options import PipelineOptions

from benchmarks.conversion.raw_data import CATEGORIES, CLASSES, COLUMNS, NUMBERS

_SHARDS = 2
_FEATURES_OF = {"tabular": COLUMNS, "images": ("image", "label"), "text": ("text",)}


def plain_writer(workload: str, source: pathlib.Path, output: pathlib.Path) -> None:
    """A loop over `tf.io.TFRecordWriter`; rows keep their order, in one file."""
    with tf.io.TFRecordWriter(str(output / "plain.tfrecord")) as writer:
        for row in _rows(workload, source):
            writer.write(_example(row))


def naive_beam(workload: str, source: pathlib.Path, output: pathlib.Path) -> None:
    """ReadFromText → one protobuf a row → WriteToTFRecord; rows are not shuffled."""
    with beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"])) as pipeline:
        if workload == "images":
            paths = pipeline | beam.Create([str(path) for path in _files(source)]) | beam.Reshuffle()
            rows = paths | beam.Map(lambda path: _image_row(pathlib.Path(path)))
        else:
            lines = pipeline | beam.io.ReadFromText(str(source), skip_header_lines=int(workload == "tabular"))
            rows = lines | beam.Map(_table_row if workload == "tabular" else _text_row)
        _ = rows | beam.Map(_example) | beam.io.WriteToTFRecord(str(output / "naive"), num_shards=_SHARDS)


def tfds(workload: str, source: pathlib.Path, output: pathlib.Path) -> None:
    """A `GeneratorBasedBuilder`, as TFDS's guide writes one: rows are shuffled by the hash of their key."""
    _tfds_builder(workload, source)(data_dir=output, file_format="tfrecord").download_and_prepare()


PEERS: dict[str, Callable] = {peer.__name__: peer for peer in (plain_writer, naive_beam, tfds)}


def _tfds_builder(workload: str, source: pathlib.Path) -> type[tfds_lib.core.GeneratorBasedBuilder]:
    kinds = {
        "label": tfds_lib.features.ClassLabel(names=["0", "1"] if workload == "tabular" else CLASSES),
        "image": tfds_lib.features.Image(encoding_format="jpeg"),
        "text": tfds_lib.features.Text(),
        **dict.fromkeys(NUMBERS, tfds_lib.features.Scalar(np.float32)),
        **dict.fromkeys(CATEGORIES, tfds_lib.features.Text()),
    }

    class Peer(tfds_lib.core.GeneratorBasedBuilder):
        VERSION = tfds_lib.core.Version("1.0.0")
        pkg_dir_path = source.parent

        def _info(self) -> tfds_lib.core.DatasetInfo:
            features = {name: kinds[name] for name in _FEATURES_OF[workload]}
            return tfds_lib.core.DatasetInfo(
                builder=self, features=tfds_lib.features.FeaturesDict(features), description="A peer."
            )

        def _split_generators(self, manager: object) -> dict:
            del manager
            return {"train": self._generate_examples()}

        def _generate_examples(self) -> Iterator[tuple[int, dict]]:
            return enumerate(_rows(workload, source))

    return Peer


def _files(source: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in source.rglob("*") if path.is_file())


def _rows(workload: str, source: pathlib.Path) -> Iterator[dict]:
    if workload == "images":
        yield from map(_image_row, _files(source))
        return
    with source.open(newline="") as file:
        yield from map(_typed, csv.DictReader(file)) if workload == "tabular" else map(_text_row, file)


def _table_row(line: str) -> dict:
    return _typed(dict(zip(COLUMNS, line.split(","), strict=True)))


def _typed(row: dict) -> dict:
    numbers = {name: float(row[name] or "nan") for name in NUMBERS}
    return {**row, **numbers, "label": int(row["label"])}


def _image_row(path: pathlib.Path) -> dict:
    # TFDS takes the path of an encoded image, or a file object of its bytes.
    return {"image": path, "label": CLASSES.index(path.parent.name)}


def _text_row(line: str) -> dict:
    return {"text": line.rstrip("\n")}


def _example(row: dict) -> bytes:
    features = {name: _feature(value) for name, value in row.items()}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def _feature(value: float | str | pathlib.Path) -> tf.train.Feature:
    if isinstance(value, float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
    if isinstance(value, int):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
    content = value.encode() if isinstance(value, str) else value.read_bytes()
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[content]))


if __name__ == "__main__":
    name, workload, source, output = sys.argv[1:]
    PEERS[name](workload, pathlib.Path(source), pathlib.Path(output))
