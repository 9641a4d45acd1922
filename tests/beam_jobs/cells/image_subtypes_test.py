"""What a model would see otherwise than Pillow is refused by its header, with the way out."""

from collections.abc import Callable

import numpy as np
import pytest

from beam_jobs.cells import image_formats
from beam_jobs.cells.images import BadImageError, check_image
from pipeline.data.schema.feature_types import Image
from tests.pictures import subtypes

REFUSED = [
    ("bmp 8 bits, header of 40", 3, "a BMP with a palette: save it as PNG"),
    ("bmp 1 bits, grey ramp", 1, "a BMP with a palette: save it as PNG"),
    ("bmp 24 bits, header of 12", 3, "a BMP in the format of OS/2: save it as PNG"),
    ("bmp 16 bits, header of 40", 3, "a BMP of 16 bits: save it as PNG"),
    ("bmp RLE8", 3, "a compressed BMP: save it as PNG"),
    ("bmp 32 bits, masks rgba, header of 124", 3, "a BMP with other masks than blue, green, red"),
    ("bmp 32 bits, header of 40", 4, "a BMP of 32 bits without alpha for 4 channels: save it as PNG"),
    ("bmp 24 bits, 7 bytes too many", 3, "whose header speaks of 342: save it again"),
    ("png grey, 1 bits", 4, "a PNG of 1 bit for 4 channels: save it with 8"),
    ("png grey, 16 bits", 1, "a grey PNG of 16 bits, of which a model would see 8: save it with 8"),
    ("png rgb, 16 bits, transparent", 4, "a PNG of 16 bits with a transparent colour for 4 channels"),
    ("png rgb, orientation 6", 3, "turn by its EXIF data: turn its pixels instead"),
    ("jpeg, orientation 6, in XMP", 3, "a JPEG that only some readers turn by its EXIF data"),
    ("gif, frame smaller than its screen", 3, "a GIF whose first frame is not as large as its screen"),
    ("webp, animated", 3, "an animated WebP"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "channels", "expected"), REFUSED)
def test_it_is_refused_by_its_header(name: str, channels: int, expected: str):
    data = subtypes.subtypes()[name](np.random.default_rng(0), 8, 12)
    with pytest.raises(BadImageError) as raised:
        check_image(data, Image(name="image", channels=channels))
    assert expected in str(raised.value)


@pytest.mark.parametrize(
    ("name", "damage", "expected"),
    [
        ("png rgb, 8 bits", lambda data: data[:60] + b"?" + data[61:], "a PNG with a damaged part"),
        ("png rgb, 8 bits", lambda data: data[:-12], "a PNG that is cut off: save it again"),
        (
            "png rgb, 8 bits",
            lambda data: data[:-8] + b"IENT" + data[-4:],
            "or none that ends it: save it again",
        ),
        ("gif, not interlaced", lambda data: data[:-2], "a GIF that is cut off: save it again"),
    ],
)
def test_a_damaged_end_is_refused_that_pillow_does_not_mind(name: str, damage: Callable, expected: str):
    data = subtypes.subtypes()[name](np.random.default_rng(0), 8, 12)
    kind = name[:3].upper()
    assert image_formats.subtype_difference(data, kind, channels=3) == ""
    assert expected in image_formats.subtype_difference(damage(data), kind, channels=3)
