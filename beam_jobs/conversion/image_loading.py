"""Replaces the paths of images by the bytes of the files, in rows that are about to be written."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from beam_jobs.cells.image_check import BadImageError, read_image
from beam_jobs.cells.rows import ORDER_COLUMN
from beam_jobs.sources.pieces.rejections import Rejection
from pipeline.data.schema.kinds import Image
from pipeline.data.schema.schema import Schema

_BYTES_AT_ONCE = 2 << 20  # 2 MiB, so that what was read is still in the processor's cache when it is written


def load_images(rows: pa.RecordBatch, schema: Schema, *, root: str) -> tuple[pa.RecordBatch, list[Rejection]]:
    """`rows` [rows] without those that have a bad image, and these. Origins are relative to `root`."""
    features = schema.of_kind(Image)
    return _loaded(rows, features, [_read(images, features, root=root) for images in _cells(rows, features)])


def load_in_parts(
    rows: pa.RecordBatch, schema: Schema, *, root: str
) -> Iterator[tuple[pa.RecordBatch, list[Rejection]]]:
    """`load_images` of `rows` [rows] in hash order, a few at a time. Rows of one hash stay together."""
    features = schema.of_kind(Image)
    if not features:
        yield rows, []
        return
    order = rows.column(ORDER_COLUMN).to_numpy()
    may_end = np.append(order[1:] != order[:-1], True).tolist()
    start, size, read = 0, 0, []
    for row, images in enumerate(_cells(rows, features)):
        read.append(_read(images, features, root=root))
        size += sum(map(len, read[-1])) if isinstance(read[-1], list) else 0
        if size >= _BYTES_AT_ONCE and may_end[row]:
            yield _loaded(rows.slice(start, len(read)), features, read)
            start, size, read = row + 1, 0, []
    yield _loaded(rows.slice(start), features, read)


def _cells(rows: pa.RecordBatch, features: Sequence[Image]) -> Iterator[tuple[Mapping, ...]]:
    """The images of each row: a path, or bytes."""
    return zip(*(rows.column(feature.name).to_pylist() for feature in features), strict=True)


def _read(images: Sequence[Mapping], features: Sequence[Image], *, root: str) -> list[bytes] | Rejection:
    """The bytes of one row's images, or what is wrong with the first bad one."""
    read = []
    for image, feature in zip(images, features, strict=True):
        path, data = image["path"], image["data"]
        try:
            read.append(read_image(path, feature) if data is None else data)
        except BadImageError as error:
            source, column = path.removeprefix(root), feature.source_column
            return Rejection(source=source, row=None, column=column, reason=str(error))
    return read


def _loaded(
    rows: pa.RecordBatch, features: Sequence[Image], read: Sequence[list[bytes] | Rejection]
) -> tuple[pa.RecordBatch, list[Rejection]]:
    """`rows` with the bytes that were `read` for them, and the rejections among these."""
    good = [images for images in read if isinstance(images, list)]
    if len(good) < len(read):
        rows = rows.filter(pa.array([isinstance(images, list) for images in read]))
    for number, feature in enumerate(features):
        images = pa.array([images[number] for images in good], pa.large_binary())
        rows = rows.set_column(rows.schema.get_field_index(feature.name), feature.name, images)
    return rows, [rejection for rejection in read if isinstance(rejection, Rejection)]
