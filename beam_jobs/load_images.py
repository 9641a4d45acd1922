"""Replaces the paths of images by the files' bytes, in rows that are about to be written."""

import numpy as np
import pyarrow as pa

from beam_jobs.image_files import BadImageError, read_image
from beam_jobs.rejected import Rejection
from pipeline.data.features import Image
from pipeline.data.schema import Schema


def load_images(rows: pa.RecordBatch, schema: Schema, *, root: str) -> tuple[pa.RecordBatch, list[Rejection]]:
    """`rows` less those whose file is no good image, and these. Places are told relative to `root`."""
    rejected: list[Rejection] = []
    for feature in schema.of_kind(Image):
        images, problems = _read_all(rows.column(feature.name).to_pylist(), feature)
        for path, reason in problems:
            source, column = path.removeprefix(root), feature.source_column
            rejected.append(Rejection(source=source, row=None, column=column, reason=reason, raw=""))
        position = rows.schema.get_field_index(feature.name)
        rows = rows.set_column(position, feature.name, pa.array(images, pa.large_binary()))
        if problems:  # or a filter would copy every image for nothing
            rows = rows.filter(pa.array(np.array([image is not None for image in images], bool)))
    return rows, rejected


def _read_all(images: list[dict], feature: Image) -> tuple[list[bytes | None], list[tuple[str, str]]]:
    """Each image's bytes, None where its file is no good image; and those files, with what is wrong."""
    read: list[bytes | None] = []
    problems: list[tuple[str, str]] = []
    for path, data in ((image["path"], image["data"]) for image in images):
        try:
            read.append(read_image(path, feature) if data is None else data)
        except BadImageError as error:
            read.append(None)
            problems.append((path, str(error)))
    return read, problems
