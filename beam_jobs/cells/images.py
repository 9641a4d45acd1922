"""Images in cells: the path of a file, read where the record is written, or the image's own bytes."""

import pyarrow as pa

from beam_jobs.cells.problems import Problems
from beam_jobs.image_files import BadImageError, check_image
from pipeline.data.features import Image

# One of the two is set.
ARROW_TYPE = pa.struct([("path", pa.string()), ("data", pa.large_binary())])


def image(feature: Image, cells: pa.Array, problems: Problems, *, directory: str) -> pa.StructArray:
    """`ARROW_TYPE` of strings, which are paths that may start from `directory`, or of images' own bytes."""
    problems.add(cells.is_null(), "missing")
    if pa.types.is_string(cells.type):
        paths = [_resolved(path, directory) for path in cells.to_pylist()]
        problems.add((row for row, path in enumerate(paths) if not path), "missing")
        data = pa.nulls(len(cells), pa.large_binary())
    else:
        paths = [None] * len(cells)
        data = cells.cast(pa.large_binary())
        _check(data.to_pylist(), feature, problems)
    return pa.StructArray.from_arrays([pa.array(paths, pa.string()), data], fields=list(ARROW_TYPE))


def _check(images: list[bytes | None], feature: Image, problems: Problems) -> None:
    """Here, and not where they are written, because here the row that holds them is known."""
    for row, data in enumerate(images):
        try:
            if data is not None:
                check_image(data, feature)
        except BadImageError as error:
            problems.add([row], str(error))


def _resolved(path: str | None, directory: str) -> str | None:
    path = path.strip() if path else None
    if not path or not directory or path.startswith("/") or "://" in path:
        return path
    return f"{directory}/{path}"
