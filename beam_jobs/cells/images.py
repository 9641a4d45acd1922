"""Images in cells: the path of a file, read where the record is written, or the image's own bytes."""

import errno
import io
import os
import warnings
from collections.abc import Sequence

import PIL.Image
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems

from beam_jobs.cells import image_formats, text
from beam_jobs.cells.text import Problems
from pipeline.base import files
from pipeline.base.errors import InputError
from pipeline.data.schema.feature_types import Image

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
            outside = outside_roots(paths.to_pylist(), (directory, *path_roots))
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


# --- Where paths in a table's cells may lead: a table is data, and must not open any file of this machine.


def check_root(folder: str) -> str:
    """`folder`; raises InputError unless it is there."""
    if "://" not in folder and not os.path.isdir(folder):  # noqa: PTH112
        raise InputError(
            f"--path_root={folder}",
            received="no folder there",
            expected="a folder that paths in cells may lead into",
            action="Correct the path.",
        )
    return folder


def outside_roots(paths: Sequence[str | None], roots: Sequence[str]) -> list[int]:
    """Positions of the paths that lead out of every root, links followed; an empty root is none."""
    local = tuple(_inside(os.path.realpath(root)) for root in roots if root and "://" not in root)
    remote = tuple(_inside(root) for root in roots if "://" in root)
    real_folders: dict[str, str] = {}  # few folders hold many files, and following links costs a call each
    found = []
    for row, path in enumerate(paths):
        if path is None:
            continue
        if "://" in path:
            is_inside = path.startswith(remote) and ".." not in path.split("/")
        else:
            is_inside = _real(path, real_folders).startswith(local)
        if not is_inside:
            found.append(row)
    return found


def _real(path: str, real_folders: dict[str, str]) -> str:
    folder, _, name = path.rpartition("/")
    if name in ("", ".", "..") or "\0" in path or os.path.islink(path):  # noqa: PTH114
        return "" if "\0" in path else os.path.realpath(path)
    if folder not in real_folders:
        real_folders[folder] = _inside(os.path.realpath(folder or ("/" if path.startswith("/") else ".")))
    return real_folders[folder] + name


def _inside(folder: str) -> str:
    return folder.rstrip("/") + "/"


# --- Reads image files, and finds those that a model could not be fed with.


# What `pipeline/data/images/decoding.py` decodes. TensorFlow Datasets (4.9.10) decodes neither GIF nor WebP.
_READABLE = ("PNG", "JPEG", "GIF", "BMP", "WEBP")
_FORMATS = {"png": ("PNG",), "jpeg": ("JPEG",), "any": _READABLE}

# What opening a path that names no file ends in; any other error may pass, and is not the row's fault.
_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP)

_HEADERS = (b"\x89PNG\r\n", image_formats.START_OF_IMAGE + b"\xff", b"GIF8", b"BM", b"RIFF")

_Size = tuple[int, int]  # width and height


class BadImageError(ValueError):
    """Says what is wrong with an image."""


def has_image_header(data: bytes) -> bool:
    """Whether `data` begins as one of the readable formats does."""
    if data.startswith(b"BM"):  # two letters, then a size
        return b"\0" in data[2:16]
    return data.startswith(_HEADERS) and (not data.startswith(b"RIFF") or data[8:12] == b"WEBP")


def read_image(path: str, feature: Image) -> bytes:
    """The file's own bytes; raises BadImageError unless they decode to an image as `feature` declares."""
    if "\0" in path:
        raise BadImageError("no such file")
    try:
        data = _content(path)
    except files.NotOrdinaryError as error:
        raise BadImageError(error.strerror) from None
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        raise BadImageError("no such file") from None
    check_image(data, feature)
    return data


def check_image(data: bytes, feature: Image) -> None:
    """Raises BadImageError unless a model sees `data` as Pillow does, and as `feature` declares.

    Nothing is decoded that has more than `feature.max_pixels`.
    """
    if not data:
        raise BadImageError("zero bytes")
    kind, size = _of_plain_jpeg(data, feature) or _decoded(data, feature)
    if difference := image_formats.subtype_difference(data, kind, channels=feature.channels):
        raise BadImageError(difference)
    if feature.height and size != (feature.width, feature.height):
        raise BadImageError(
            f"{size[0]}x{size[1]} pixels in place of {feature.width}x{feature.height} (width x height)"
        )


def _content(path: str) -> bytes:
    if "://" not in path:
        # Opening a local file through Beam costs more than reading an image.
        return files.read_bytes(path)
    with FileSystems.open(path, compression_type="uncompressed") as stream:
        return stream.read()


def _of_plain_jpeg(data: bytes, feature: Image) -> tuple[str, _Size] | None:
    """Format, and size as seen, of a JPEG that needs no image library; None if `data` is anything else."""
    size = image_formats.jpeg_size(data, max_pixels=feature.max_pixels)
    return None if size is None or feature.encoding == "png" else ("JPEG", size)


def _decoded(data: bytes, feature: Image) -> tuple[str, _Size]:
    """Format, and size as seen, of an image that decodes; of a JPEG, its beginning stands for the whole."""
    shortened = image_formats.shortened_jpeg(data)
    if shortened is None:
        raise BadImageError("truncated: a JPEG without its end marker")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with PIL.Image.open(io.BytesIO(shortened)) as image:
                size, kind = image.size, _allowed_format(image, feature)
                image.draft("L", (max(1, size[0] // 8), max(1, size[1] // 8)))  # JPEG: fewer pixels to make
                image.load()
                return kind, _as_seen(size, kind, data, image_formats.orientation_by_pillow(image))
    except PIL.UnidentifiedImageError:
        raise BadImageError("not an image") from None
    except BadImageError:
        raise
    except Exception as error:  # broken bytes make Pillow's decoders raise errors of any class
        raise BadImageError(f"does not decode ({type(error).__name__})") from None


def _allowed_format(image: PIL.Image.Image, feature: Image) -> str:
    """The format of an image that may be decoded, by its header."""
    # Phones write JPEG with a preview attached, which Pillow calls MPO.
    kind = "JPEG" if image.format == "MPO" else str(image.format)
    if kind not in _FORMATS[feature.encoding]:
        raise BadImageError(f"a {kind} image in place of {' or '.join(_FORMATS[feature.encoding])}")
    width, height = image.size
    if width * height > feature.max_pixels:
        raise BadImageError(
            f"{width:,}x{height:,} pixels, more than the {feature.max_pixels:,} of the schema's max_pixels"
        )
    return kind


def _as_seen(size: _Size, kind: str, data: bytes, orientation: int) -> _Size:
    """`size` turned as the EXIF data say, which a model's input pipeline reads in JPEGs."""
    if orientation != (image_formats.orientation_of_jpeg(data) if kind == "JPEG" else image_formats.UPRIGHT):
        raise BadImageError(f"a {kind} that only some readers turn by its EXIF data: turn its pixels instead")
    return image_formats.seen_size(size, orientation)
