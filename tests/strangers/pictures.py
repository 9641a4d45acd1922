"""Folders of images as they lie on somebody's disk."""

import pathlib
from collections.abc import Callable

import numpy as np
import PIL.Image

from tests.shared.pictures import noise
from tests.strangers.stranger import IMAGES, Stranger

_CLASSES = ("cat", "dog")


def _picture(number: int, *, mode: str = "RGB", size: tuple[int, int] = (20, 24)) -> PIL.Image.Image:
    pixels = noise(*size, 3, seed=number) // 2 + np.uint8(100 * (number % 2))
    return PIL.Image.fromarray(pixels).convert(mode)


def _save(
    folder: pathlib.Path, number: int, *, ending: str = "png", mode: str = "RGB", **options: object
) -> None:
    place = folder / "data" / _CLASSES[number % 2]
    place.mkdir(parents=True, exist_ok=True)
    _picture(number, mode=mode).save(place / f"{number:03}.{ending}", **options)


def _images(count: int = 60, **options: object) -> Callable[[pathlib.Path], None]:
    def write(folder: pathlib.Path) -> None:
        for number in range(count):
            _save(folder, number, **options)

    return write


def _with_strays(folder: pathlib.Path) -> None:
    _images()(folder)
    (folder / "data" / "bird").mkdir()
    (folder / "data" / "cat" / "Thumbs.db").write_bytes(b"\xd0\xcf\x11\xe0 not an image")
    (folder / "data" / "dog" / ".DS_Store").write_bytes(b"\x00\x00\x00\x01Bud1")


def _with_notes(folder: pathlib.Path) -> None:
    _images()(folder)
    (folder / "data" / "readme.txt").write_text("taken in 2019\n")


def _flat(folder: pathlib.Path) -> None:
    (folder / "data").mkdir()
    for number in range(40):
        _picture(number).save(folder / "data" / f"IMG {number}.png")


def _sizes(folder: pathlib.Path) -> None:
    for number in range(60):
        place = folder / "data" / f"{_CLASSES[number % 2]} & co"
        place.mkdir(parents=True, exist_ok=True)
        size = (1 + number, 1 + number * 3 % 50)
        _picture(number, size=size).save(place / f"größe #{number} (1).PNG")


def _rotated(folder: pathlib.Path) -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = 6  # orientation: turn by 90 degrees
    _images(ending="jpg", exif=exif)(folder)


def _modes(folder: pathlib.Path) -> None:
    for number in range(64):
        _save(folder, number, mode=("RGB", "L", "P", "RGBA")[number // 2 % 4])


def _nested(folder: pathlib.Path) -> None:
    for number in range(40):
        place = folder / "data" / "train" / _CLASSES[number % 2] / "2019"
        place.mkdir(parents=True, exist_ok=True)
        _picture(number).save(place / f"{number}.png")


def _pictures(name: str, ugly: str, write: Callable, *, ends: bool = False) -> Stranger:
    return Stranger(
        name=name,
        ugly=ugly,
        write=write,
        inputs=("data",),
        source=("--format=images",),
        infer=(),
        config="image_classification",
        train=IMAGES,
        ends=ends,
    )


STRANGERS = (
    _pictures("images", "PNG of one size", _images()),
    _pictures("images_strays", "an empty class folder, Thumbs.db, .DS_Store", _with_strays),
    _pictures("images_notes", "readme.txt beside the class folders", _with_notes, ends=True),
    _pictures("images_flat", "no class folders", _flat, ends=True),
    _pictures("images_too_deep", "train/cat/2019/1.png", _nested, ends=True),
    _pictures("images_sizes", "1 to 60 pixels, names of umlauts, # and blanks", _sizes),
    _pictures("images_grey", "grey JPEG", _images(ending="jpg", mode="L")),
    _pictures("images_cmyk", "CMYK JPEG, as printers send", _images(ending="jpg", mode="CMYK"), ends=True),
    _pictures("images_exif", "JPEG turned by EXIF", _rotated),
    _pictures("images_modes", "RGB, grey, palette and RGBA together", _modes),
)
