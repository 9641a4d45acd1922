"""Reads image files where records are written, and finds those that a model could not be fed with."""

import io
import warnings

import PIL.Image
from apache_beam.io.filesystems import FileSystems

from pipeline.data.features import Image

# What `tf.image.decode_image` decodes, which is what reads the record.
_READABLE = ("PNG", "JPEG", "GIF", "BMP")
_FORMATS = {"png": ("PNG",), "jpeg": ("JPEG",), "any": _READABLE}


_HEADERS = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"BM")


class BadImageError(ValueError):
    """Says what is wrong with an image."""


def has_image_header(data: bytes) -> bool:
    """Whether `data` begins as one of the readable formats does (BMP: two letters, then a size)."""
    return data.startswith(_HEADERS) and (not data.startswith(b"BM") or b"\0" in data[2:16])


def read_image(path: str, feature: Image) -> bytes:
    """The file's own bytes; raises BadImageError unless they decode to an image as `feature` declares."""
    try:
        with FileSystems.open(path, compression_type="uncompressed") as stream:
            data = stream.read()
    except FileNotFoundError:
        raise BadImageError("no such file") from None
    check_image(data, feature)
    return data


def check_image(data: bytes, feature: Image) -> None:
    """Raises BadImageError unless `data` decodes to an image as `feature` declares."""
    if not data:
        raise BadImageError("zero bytes")
    kind, size = _decoded(data)
    if kind not in _FORMATS[feature.encoding]:
        raise BadImageError(f"a {kind} image in place of {' or '.join(_FORMATS[feature.encoding])}")
    if feature.height and size != (feature.width, feature.height):
        raise BadImageError(
            f"{size[0]}x{size[1]} pixels in place of {feature.width}x{feature.height} (width x height)"
        )


def _decoded(data: bytes) -> tuple[str, tuple[int, int]]:
    """Format and (width, height) of an image that decodes to its last pixel."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with PIL.Image.open(io.BytesIO(data)) as image:
                size = image.size
                # All bytes of a JPEG are read for an eighth of its size, too; only pixels are saved.
                image.draft("L", (max(1, size[0] // 8), max(1, size[1] // 8)))
                image.load()
                # Phones write JPEG with a preview attached, which Pillow calls MPO.
                return ("JPEG" if image.format == "MPO" else str(image.format)), size
    except PIL.UnidentifiedImageError:
        raise BadImageError("not an image") from None
    except Exception as error:  # Pillow's decoders raise whatever the broken bytes lead them to
        raise BadImageError(f"does not decode ({type(error).__name__})") from None
