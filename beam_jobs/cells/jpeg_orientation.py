"""Which way up a JPEG is meant to be seen, as `pipeline/data/images/orientation.py` finds it in the graph."""

import PIL.Image

UPRIGHT, _FIRST_TRANSPOSED = 1, 5
_TAG, _SHORT = 0x0112, 3
_APPLICATION_1 = b"\xff\xe1"
_COMMENT = 0xFE
_EXIF = b"Exif\0\0"
_WHERE_PILLOW_LOOKS = {"exif", "Raw profile type exif", "xmp", "XML:com.adobe.xmp"}
_ENTRY_BYTES = 12


def of_jpeg(data: bytes) -> int:
    """1 to 8: what a model's input pipeline turns the picture by."""
    at = 2
    while data[at : at + 1] == b"\xff" and _is_skipped(data[at + 1 : at + 2]) and not _is_exif(data, at):
        at += 2 + int.from_bytes(data[at + 2 : at + 4].ljust(2, b"\0"), "big")
    if data[at : at + 2] != _APPLICATION_1 or not _is_exif(data, at):
        return UPRIGHT
    return _of_tiff(data[at + 10 : at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")])


def by_pillow(image: PIL.Image.Image) -> int:
    """1 to 8: what `PIL.ImageOps.exif_transpose` turns any image by; it also looks into XMP."""
    if not image.info.keys() & _WHERE_PILLOW_LOOKS:
        return UPRIGHT
    return _valid(image.getexif().get(_TAG, UPRIGHT))


def seen_size(size: tuple[int, int], orientation: int) -> tuple[int, int]:
    """Width and height as stored → as seen."""
    return size[::-1] if orientation >= _FIRST_TRANSPOSED else size


def _valid(orientation: object) -> int:
    """`orientation` if it is one."""
    return orientation if orientation in range(1, 9) else UPRIGHT


def _is_skipped(marker: bytes) -> bool:
    return bool(marker) and (marker[0] >> 4 == 0xE or marker[0] == _COMMENT)


def _is_exif(data: bytes, at: int) -> bool:
    return data[at + 4 : at + 10] == _EXIF


def _of_tiff(tiff: bytes) -> int:
    """The orientation in the first directory (TIFF 6.0, 2)."""
    order = "little" if tiff[:1] == b"I" else "big"
    number = lambda start: int.from_bytes(tiff[start : start + 2], order)  # noqa: E731
    directory = number(4 if order == "little" else 6)
    count = min(number(directory), (len(tiff) - directory - 2) // _ENTRY_BYTES)
    for entry in range(directory + 2, directory + 2 + count * _ENTRY_BYTES, _ENTRY_BYTES):
        if (number(entry), number(entry + 2)) == (_TAG, _SHORT):
            return _valid(number(entry + 8))
    return UPRIGHT
