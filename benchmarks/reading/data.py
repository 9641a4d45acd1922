"""Data for the input benchmark: the same content, in the format of each reader.

  tabular/rows.npy      int32 [rows, 40]: 13 float32 bit by bit, 26 categories, a label; all that others hold
  tokens/rows.npy       uint16 [rows, 513]: documents, one after the other
  tokens/documents/     TFRecords of one document an Example, not yet packed
  images/<class>/<n>.jpg, and all of them in images.bin, of which image i is bytes offsets[i]…offsets[i+1]
  <workload>/rows/, <workload>/blocks/   datasets that `beam_jobs.convert` wrote

Every example can be told apart: a row by its hash, an image by its label. `peers/write.py` adds the formats
of others.
"""

import dataclasses
import io
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.parquet

from benchmarks.reading.shapes import CARDINALITY, CATEGORIES, END, NUMBERS, ROW_TOKENS, VOCABULARY
from pipeline.data.dataset import manifest
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Image, Label, Tensor, Tokens
from pipeline.data.schema.schema import Schema

_DISTINCT_IMAGES = 512
# 16 shards or so of `rows`, for those who interleave them; one of `blocks`, as suits mapping it into memory.
_ROWS_SHARD_MIB = {"tabular": 10, "images": 13, "tokens": 6}
_BLOCKS_SHARD_MIB = 1024
_READY = "data.json"  # written last


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sizes:
    """Whole batches for two workers, so that no reader has a remainder to drop."""

    rows: int = 1 << 20
    images: int = 8192
    documents: int = 80_000
    tokens_multiple: int = 2048  # of rows of tokens


def schemas(classes: tuple[str, ...] = ()) -> dict[str, Schema]:
    """One Example has three lists: for whoever parses, half the work of 40 features of one number each."""
    return {
        "tabular": Schema(
            name="clicks",
            features=(
                Tensor(name="dense", dimensions=(NUMBERS,)),
                Tokens(name="cat", length=CATEGORIES, vocabulary_size=CARDINALITY),
                Label(name="label", classes=("0", "1")),
            ),
        ),
        "images": Schema(
            name="pictures",
            features=(
                Image(name="image", encoding="jpeg"),
                Label(name="label", task="multiclass", classes=classes or ("0", "1")),
            ),
        ),
        "tokens": Schema(
            name="corpus",
            features=(Tokens(name="tokens", length=ROW_TOKENS, vocabulary_size=VOCABULARY),),
        ),
    }


def prepare(workload: str, directory: pathlib.Path, sizes: Sizes) -> pathlib.Path:
    """Writes what is not there yet, the formats of others aside; returns the workload's directory."""
    here = directory / workload
    wanted = json.dumps({"format": manifest.FORMAT, **dataclasses.asdict(sizes)})
    if (here / _READY).exists() and (here / _READY).read_text() == wanted:
        return here
    shutil.rmtree(here, ignore_errors=True)  # what an earlier call began
    here.mkdir(parents=True)
    {"tabular": _write_tabular, "images": _write_images, "tokens": _write_tokens}[workload](here, sizes)
    (here / _READY).write_text(wanted)
    return here


def _write_tabular(here: pathlib.Path, sizes: Sizes) -> None:
    random = np.random.default_rng(0)
    dense = np.log1p(random.exponential(50, (sizes.rows, NUMBERS))).astype(np.float32)
    categories = (random.zipf(1.2, (sizes.rows, CATEGORIES)) % CARDINALITY).astype(np.int32)
    label = (random.random((sizes.rows, 1)) < 0.25).astype(np.int32)
    np.save(here / "rows.npy", np.concatenate([dense.view(np.int32), categories, label], axis=1))
    table = pa.table({"dense": lists(dense), "cat": lists(categories), "label": label[:, 0].astype(str)})
    _convert(here, table, "tabular")


def _write_tokens(here: pathlib.Path, sizes: Sizes) -> None:
    random = np.random.default_rng(3)
    lengths = np.clip(random.lognormal(6.1, 0.8, sizes.documents), 16, 8192).astype(int)
    documents = [(random.zipf(1.15, n) % (VOCABULARY - 1) + 1).astype(np.uint16) for n in lengths]
    end = np.array([END], np.uint16)
    stream = np.concatenate([part for one in documents for part in (one, end)])
    rows = len(stream) // ROW_TOKENS // sizes.tokens_multiple * sizes.tokens_multiple
    packed = stream[: rows * ROW_TOKENS].reshape(rows, ROW_TOKENS)
    np.save(here / "rows.npy", packed)
    _write_documents(here / "documents", documents)
    table = pa.table({"tokens": lists(packed)})
    _convert(here, table, "tokens")


def _write_documents(directory: pathlib.Path, documents: list[np.ndarray], shards: int = 16) -> None:
    import tensorflow as tf  # only this format is TensorFlow's to write

    directory.mkdir(exist_ok=True)
    for shard in range(shards):
        with tf.io.TFRecordWriter(str(directory / f"documents.tfrecord-{shard:05d}")) as writer:
            for document in documents[shard::shards]:
                ids = tf.train.Feature(int64_list=tf.train.Int64List(value=document.tolist()))
                example = tf.train.Example(features=tf.train.Features(feature={"tokens": ids}))
                writer.write(example.SerializeToString())


def _write_images(here: pathlib.Path, sizes: Sizes) -> None:
    distinct = [_jpeg(seed) for seed in range(min(sizes.images, _DISTINCT_IMAGES))]
    # Files differ in their last bytes at least, which decoders pass over.
    files = [distinct[i % len(distinct)] + i.to_bytes(4, "big") for i in range(sizes.images)]
    classes = tuple(f"{i:05d}" for i in range(sizes.images))
    for name, content in zip(classes, files, strict=True):
        (here / "raw" / name).mkdir(parents=True, exist_ok=True)
        (here / "raw" / name / "image.jpg").write_bytes(content)
    (here / "images.bin").write_bytes(b"".join(files))
    np.save(here / "offsets.npy", np.cumsum([0, *map(len, files)]))
    schema_lib.save(schemas(classes)["images"], here / "schema.json")
    run_convert(here, here / "raw", "images", f"--shard_mib={_ROWS_SHARD_MIB['images']}")


def _jpeg(seed: int) -> bytes:
    """About 25 KB, sides of 240 to 288: noise of several sizes, so that it compresses as photographs do."""
    random = np.random.default_rng(seed)
    width, height = map(int, random.integers(240, 289, 2))
    pixels = np.full((height, width, 3), 128, np.float32)
    for grain, weight in ((4, 90), (12, 45), (40, 22), (110, 14)):
        noise = random.standard_normal((grain, grain, 3)).astype(np.float32)
        layers = [PIL.Image.fromarray(noise[..., c]).resize((width, height)) for c in range(3)]
        pixels += weight * np.stack([np.asarray(layer) for layer in layers], axis=-1)
    pixels += 5 * random.standard_normal((height, width, 1)).astype(np.float32)
    file = io.BytesIO()
    PIL.Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=90)
    return file.getvalue()


def lists(values: np.ndarray) -> pa.FixedSizeListArray:
    """Numbers [rows, n] as a column of lists."""
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def _convert(here: pathlib.Path, table: pa.Table, workload: str) -> None:
    """Converts the table to both layouts."""
    raw = here / "raw.parquet"
    pyarrow.parquet.write_table(table, raw, row_group_size=1 << 16, use_dictionary=False, compression="none")
    schema_lib.save(schemas()[workload], here / "schema.json")
    run_convert(here, raw, "parquet", f"--shard_mib={_ROWS_SHARD_MIB[workload]}")
    run_convert(here, raw, "parquet", f"--shard_mib={_BLOCKS_SHARD_MIB}", layout="blocks")
    raw.unlink()


def run_convert(
    here: pathlib.Path, raw: pathlib.Path, raw_format: str, *options: str, layout: str = "rows"
) -> None:
    """Converts `raw` by `here`'s schema.json to a dataset of this layout in `here`."""
    command = [
        *(sys.executable, "-m", "beam_jobs.convert", f"--input=train={raw}", f"--format={raw_format}"),
        *(f"--schema={here / 'schema.json'}", f"--output={here / layout}", f"--layout={layout}"),
        *options,
    ]
    subprocess.run(command, check=True, cwd=pathlib.Path(__file__).parents[2], stdout=subprocess.DEVNULL)
