"""Images in cells: the path of a file, read where the record is written, or the image's own bytes."""

import pyarrow as pa

from beam_jobs.cells import path_roots as roots
from beam_jobs.cells import text
from beam_jobs.cells.image_check import BadImageError, check_image
from beam_jobs.cells.problems import Problems
from pipeline.data.schema.kinds import Image

# One of the two is set.
ARROW_TYPE = pa.struct([("path", pa.string()), ("data", pa.large_binary())])


def image(
    feature: Image,
    cells: pa.Array,
    problems: Problems,
    *,
    directory: str,
    path_roots: tuple[str, ...] | None,
) -> pa.StructArray:
    """`ARROW_TYPE` [rows] of `cells` [rows]: paths, which may start in `directory`, or images' own bytes.

    A path is a problem that leads elsewhere than into `directory` or `path_roots`, unless these are None.
    """
    problems.add(cells.is_null(), "missing")
    paths, data = pa.nulls(len(cells), pa.string()), pa.nulls(len(cells), pa.large_binary())
    if text.is_bytes(cells.type):
        data = cells.cast(pa.large_binary())
        _check(data.to_pylist(), feature, problems)
    elif text.is_text(cells.type):
        paths = pa.array([_resolved(path, directory) for path in cells.to_pylist()], pa.string())
        problems.add(paths.is_null(), "missing")
        if path_roots is not None:
            outside = roots.outside(paths.to_pylist(), (directory, *path_roots))
            problems.add(outside, "outside of the table's folder: --path_root=FOLDER allows another")
    else:
        problems.add(range(len(cells)), "neither an image nor the path of one")
    return pa.StructArray.from_arrays([paths, data], fields=list(ARROW_TYPE))


def _check(images: list[bytes | None], feature: Image, problems: Problems) -> None:
    """Checks images here, and not where they are written, because here their row is known."""
    for row, data in enumerate(images):
        try:
            if data is not None:
                check_image(data, feature)
        except BadImageError as error:
            problems.add([row], str(error))


def _resolved(path: str | None, directory: str) -> str | None:
    path = (path and path.strip()) or None
    if not path or not directory or path.startswith("/") or "://" in path:
        return path
    return f"{directory}/{path}"
