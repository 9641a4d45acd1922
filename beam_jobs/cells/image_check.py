"""Reads image files, and finds those that a model could not be fed with."""

import errno
import io
import warnings

import PIL.Image
from apache_beam.io.filesystems import FileSystems

from beam_jobs.cells import image_subtypes, jpeg_check, jpeg_orientation
from pipeline.data import ordinary_files
from pipeline.data.schema.kinds import Image

# What `pipeline/data/images/decoding.py` decodes. TensorFlow Datasets (4.9.10) decodes neither GIF nor WebP.
_READABLE = ("PNG", "JPEG", "GIF", "BMP", "WEBP")
_FORMATS = {"png": ("PNG",), "jpeg": ("JPEG",), "any": _READABLE}

# What opening a path that names no file ends in; any other error may pass, and is not the row's fault.
_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP)

_HEADERS = (b"\x89PNG\r\n", jpeg_check.START_OF_IMAGE + b"\xff", b"GIF8", b"BM", b"RIFF")

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
    except ordinary_files.NotOrdinaryError as error:
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
    if difference := image_subtypes.difference(data, kind, channels=feature.channels):
        raise BadImageError(difference)
    if feature.height and size != (feature.width, feature.height):
        raise BadImageError(
            f"{size[0]}x{size[1]} pixels in place of {feature.width}x{feature.height} (width x height)"
        )


def _content(path: str) -> bytes:
    if "://" not in path:
        # Opening a local file through Beam costs more than reading an image.
        return ordinary_files.read_bytes(path)
    with FileSystems.open(path, compression_type="uncompressed") as stream:
        return stream.read()


def _of_plain_jpeg(data: bytes, feature: Image) -> tuple[str, _Size] | None:
    """Format, and size as seen, of a JPEG that needs no image library; None if `data` is anything else."""
    size = jpeg_check.size_of(data, max_pixels=feature.max_pixels)
    return None if size is None or feature.encoding == "png" else ("JPEG", size)


def _decoded(data: bytes, feature: Image) -> tuple[str, _Size]:
    """Format, and size as seen, of an image that decodes; of a JPEG, its beginning stands for the whole."""
    shortened = jpeg_check.shortened(data)
    if shortened is None:
        raise BadImageError("truncated: a JPEG without its end marker")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with PIL.Image.open(io.BytesIO(shortened)) as image:
                size, kind = image.size, _allowed_format(image, feature)
                image.draft("L", (max(1, size[0] // 8), max(1, size[1] // 8)))  # JPEG: fewer pixels to make
                image.load()
                return kind, _as_seen(size, kind, data, jpeg_orientation.by_pillow(image))
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
    if orientation != (jpeg_orientation.of_jpeg(data) if kind == "JPEG" else jpeg_orientation.UPRIGHT):
        raise BadImageError(f"a {kind} that only some readers turn by its EXIF data: turn its pixels instead")
    return jpeg_orientation.seen_size(size, orientation)
