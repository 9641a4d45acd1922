"""Images in cells: the path of a file, read where the record is written, or the image's own bytes.

A model sees the picture in a record as Pillow does. An ordinary JPEG or PNG is stored as it is. Any other
image that Pillow reads becomes an upright PNG of its first frame.
"""

import contextlib
import errno
import io
import os
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import PIL.Image
import PIL.ImageOps
import pyarrow as pa
from apache_beam.io.filesystems import FileSystems

from beam_jobs.cells import image_formats, text
from beam_jobs.cells.text import MISSING, Problems
from pipeline.base import files
from pipeline.base.errors import InputError
from pipeline.data.schema.feature_types import Image

# One of the two is set.
ARROW_TYPE = pa.struct([("path", pa.string()), ("data", pa.large_binary())])

# Formats that Pillow reads, usual ones first. EPS is not among them, because Pillow runs Ghostscript for it;
# nor are formats of measurements.
_READABLE = (
    *("PNG", "JPEG", "GIF", "BMP", "PPM", "TIFF", "WEBP", "AVIF", "JPEG2000", "ICO", "ICNS", "DIB"),
    *("QOI", "TGA", "PCX", "DCX", "SGI", "SUN", "PSD", "DDS", "MSP", "XBM", "XPM"),
)
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # by the schema's channels
_COMPRESSION = 4  # compression level of PNGs; twice as fast as 6, for 2% more bytes
_MOST_BYTES = 8  # bytes of one pixel, at most, while it is decoded and converted
_BITS_PER_SAMPLE = 258  # a tag of TIFF

# Errors of a path that names no file; any other error may pass, and is no fault of the row.
_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP)


class BadImageError(ValueError):
    """Says what is wrong with an image."""


def image(
    feature: Image,
    cells: pa.Array,
    problems: Problems,
    *,
    directory: str,
    path_roots: tuple[str, ...] | None,
) -> pa.StructArray:
    """Returns `ARROW_TYPE` [rows]: paths, which may start in `directory`, or images' own bytes.

    A path that leads out of `directory` and `path_roots` is a problem, unless `path_roots` is None.
    """
    problems.add(cells.is_null(), MISSING)
    paths, data = pa.nulls(len(cells), pa.string()), pa.nulls(len(cells), pa.large_binary())
    if text.is_bytes(cells.type):
        data = _normalized_cells(cells.cast(pa.large_binary()), feature, problems)
    elif text.is_text(cells.type):
        paths = pa.array([_resolved(path, directory) for path in cells.to_pylist()], pa.string())
        problems.add(paths.is_null(), MISSING)
        if path_roots is not None:
            outside = paths_outside(paths.to_pylist(), (directory, *path_roots))
            problems.add(outside, "outside of the table's folder: --path_root=FOLDER allows another")
    else:
        problems.add(range(len(cells)), "neither an image nor the path of one")
    return pa.StructArray.from_arrays([paths, data], fields=list(ARROW_TYPE))


def read_image(path: str, feature: Image) -> bytes:
    """Returns what a record holds of the file; raises BadImageError unless it is as `feature` declares."""
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
    return normalized(data, feature)


def normalized(data: bytes, feature: Image) -> bytes:
    """Returns what a record holds of an image: `data` itself, or a PNG of the pixels that Pillow reads.

    Decodes nothing that has more than `feature.max_pixels`. Raises BadImageError unless Pillow reads the
    image, and it is as `feature` declares.
    """
    if not data:
        raise BadImageError("zero bytes")
    is_jpeg_allowed = feature.encoding != "png"
    size = image_formats.plain_jpeg_size(data, max_pixels=feature.max_pixels) if is_jpeg_allowed else None
    stored, size = (data, size) if size else _by_pillow(data, feature)
    if feature.height and size != (feature.width, feature.height):
        raise BadImageError(
            f"{size[0]}x{size[1]} pixels in place of {feature.width}x{feature.height} (width x height)"
        )
    return stored


def check_root(folder: str) -> str:
    """Returns `folder`; raises InputError unless it is there."""
    if "://" not in folder and not os.path.isdir(folder):  # noqa: PTH112
        raise InputError(
            f"--path_root={folder}",
            received="no folder there",
            expected="a folder that paths in cells may lead into",
            action="Correct the path.",
        )
    return folder


def paths_outside(paths: Sequence[str | None], roots: Sequence[str]) -> list[int]:
    """Returns the positions of paths that lead out of every root, after links are followed. An empty root
    counts as no root.

    A table is data, and must not open any file of this machine.
    """
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


def _normalized_cells(cells: pa.LargeBinaryArray, feature: Image, problems: Problems) -> pa.LargeBinaryArray:
    """Normalises images here, and not where they are written, because here their row is known."""
    changed: dict[int, bytes] = {}
    given = cells.to_pylist()
    for row, data in enumerate(given):
        try:
            if data is not None and (stored := normalized(data, feature)) is not data:
                changed[row] = stored
        except BadImageError as error:
            problems.add([row], str(error))
    if not changed:
        return cells
    return pa.array([changed.get(row, data) for row, data in enumerate(given)], pa.large_binary())


def _content(path: str) -> bytes:
    if "://" not in path:
        # Opening a local file through Beam costs more than reading an image.
        return files.read_bytes(path)
    with FileSystems.open(path, compression_type="uncompressed") as stream:
        return stream.read()


def _by_pillow(data: bytes, feature: Image) -> tuple[bytes, tuple[int, int]]:
    """Returns what a record holds, and its size as seen; decodes only the beginning of an ordinary JPEG."""
    with _opened(image_formats.shortened(data), feature) as image:
        if problem := image_formats.damage(data):
            raise BadImageError(problem)
        if image_formats.is_ordinary(image, data, channels=feature.channels):
            width, height = image.size
            size = image_formats.seen_size(image)
            image.draft("L", (max(1, width // 8), max(1, height // 8)))  # JPEG: fewer pixels to make
            image.load()
            return data, size
    with _opened(data, feature) as image:
        pixels = _pixels(image, feature.channels)
        return _png(pixels), pixels.size


@contextlib.contextmanager
def _opened(data: bytes, feature: Image) -> Iterator[PIL.Image.Image]:
    """Opens an image whose header `feature` allows; raises BadImageError for whatever goes wrong with it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with PIL.Image.open(io.BytesIO(data), formats=_READABLE) as image:
                _check_header(image, feature)
                yield image
    except PIL.UnidentifiedImageError:
        raise BadImageError("not an image") from None
    except BadImageError:
        raise
    except PIL.Image.DecompressionBombError:
        raise BadImageError(
            f"more than {2 * PIL.Image.MAX_IMAGE_PIXELS:,} pixels, which Pillow refuses"
        ) from None
    except MemoryError:
        # Raises the MemoryError again where the file is not to blame.
        bytearray(_MOST_BYTES * feature.max_pixels)
        raise BadImageError("does not decode: it asks for too much memory") from None
    except Exception as error:  # broken bytes make Pillow's decoders raise errors of any class
        raise BadImageError(f"does not decode ({type(error).__name__})") from None


def _check_header(image: PIL.Image.Image, feature: Image) -> None:
    # Phones write JPEG with a preview attached, which Pillow calls MPO.
    kind = "JPEG" if image.format == "MPO" else str(image.format)
    if feature.encoding not in ("any", kind.lower()):
        raise BadImageError(f"a {kind} image in place of {feature.encoding.upper()}")
    width, height = image.size
    if width * height > feature.max_pixels:
        raise BadImageError(
            f"{width:,}x{height:,} pixels, more than the {feature.max_pixels:,} of the schema's max_pixels"
        )


def _pixels(image: PIL.Image.Image, channels: int) -> PIL.Image.Image:
    """Returns the first frame as Pillow reads it, turned by its EXIF data, with 8 bits a sample."""
    bits = _bits(image)
    seen = PIL.ImageOps.exif_transpose(image)
    if bits > 8:
        # Pillow would clip them. The upper 8 bits are what it reads in colour, too.
        seen = PIL.Image.fromarray((np.asarray(seen) >> (bits - 8)).astype(np.uint8))
    return seen.convert(_MODES[channels])


def _bits(image: PIL.Image.Image) -> int:
    """Returns the bits of a sample as Pillow holds it; raises BadImageError for numbers of no known range."""
    if image.mode.startswith("I;16"):
        return image.tag_v2.get(_BITS_PER_SAMPLE, (16,))[0] if image.format == "TIFF" else 16
    if image.mode == "I" and image.format == "PPM":
        return 16
    if image.mode in ("I", "F"):
        raise BadImageError(
            "numbers of 32 bits or with signs, not levels: save it with 8 or 16 bits a sample"
        )
    return 8


def _png(image: PIL.Image.Image) -> bytes:
    """Returns a PNG with the same bytes for the same pixels."""
    image.info = {}  # drops what else the PNG would hold: a profile, or a transparent colour
    stream = io.BytesIO()
    image.save(stream, "PNG", compress_level=_COMPRESSION, optimize=False)
    return stream.getvalue()


def _resolved(path: str | None, directory: str) -> str | None:
    path = (path and path.strip()) or None
    if not path or not directory or path.startswith("/") or "://" in path:
        return path
    return f"{directory}/{path}"


def _real(path: str, real_folders: dict[str, str]) -> str:
    folder, _, name = path.rpartition("/")
    if name in ("", ".", "..") or "\0" in path or os.path.islink(path):  # noqa: PTH114
        return "" if "\0" in path else os.path.realpath(path)
    if folder not in real_folders:
        real_folders[folder] = _inside(os.path.realpath(folder or ("/" if path.startswith("/") else ".")))
    return real_folders[folder] + name


def _inside(folder: str) -> str:
    return folder.rstrip("/") + "/"
