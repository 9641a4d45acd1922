"""Reads image files, and finds those that a model could not be fed with."""

import errno
import io
import warnings

import PIL.Image
from apache_beam.io.filesystems import FileSystems

from beam_jobs.cells import jpeg_check
from pipeline.data.schema.kinds import Image

# What `pipeline/data/images/decoding.py` decodes. TensorFlow Datasets (4.9.10) decodes neither GIF nor WebP.
_READABLE = ("PNG", "JPEG", "GIF", "BMP", "WEBP")
_FORMATS = {"png": ("PNG",), "jpeg": ("JPEG",), "any": _READABLE}

# What opening a path that names no file ends in; any other error may pass, and is not the row's fault.
_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP)

_HEADERS = (b"\x89PNG\r\n", jpeg_check.START_OF_IMAGE + b"\xff", b"GIF8", b"BM", b"RIFF")


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
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        raise BadImageError("no such file") from None
    check_image(data, feature)
    return data


def check_image(data: bytes, feature: Image) -> None:
    """Raises BadImageError unless `data` decodes to an image as `feature` declares."""
    if not data:
        raise BadImageError("zero bytes")
    plain = jpeg_check.size_of(data)
    kind, size = ("JPEG", plain) if plain else _decoded(data)
    if kind == "WEBP" and _is_animated(data):
        raise BadImageError(
            "an animated WebP, on which TensorFlow's decoder aborts: convert it to a still image"
        )
    if kind not in _FORMATS[feature.encoding]:
        raise BadImageError(f"a {kind} image in place of {' or '.join(_FORMATS[feature.encoding])}")
    if feature.height and size != (feature.width, feature.height):
        raise BadImageError(
            f"{size[0]}x{size[1]} pixels in place of {feature.width}x{feature.height} (width x height)"
        )


def _is_animated(webp: bytes) -> bool:
    """By the flags of the extended header (RFC 9649, 2.7.1)."""
    return webp[12:16] == b"VP8X" and bool(webp[20] & 0x02)


def _content(path: str) -> bytes:
    if "://" not in path:
        with io.FileIO(path) as file:  # opening a local file through Beam costs more than reading an image
            return file.readall()
    with FileSystems.open(path, compression_type="uncompressed") as stream:
        return stream.read()


def _decoded(data: bytes) -> tuple[str, tuple[int, int]]:
    """Format and (width, height) of an image that decodes; of a JPEG, its beginning stands for the whole."""
    data = jpeg_check.shortened(data)
    if data is None:
        raise BadImageError("truncated: a JPEG without its end marker")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with PIL.Image.open(io.BytesIO(data)) as image:
                size = image.size
                image.draft("L", (max(1, size[0] // 8), max(1, size[1] // 8)))  # JPEG: fewer pixels to make
                image.load()
                # Phones write JPEG with a preview attached, which Pillow calls MPO.
                return ("JPEG" if image.format == "MPO" else str(image.format)), size
    except PIL.UnidentifiedImageError:
        raise BadImageError("not an image") from None
    except Exception as error:  # broken bytes make Pillow's decoders raise errors of any class
        raise BadImageError(f"does not decode ({type(error).__name__})") from None
