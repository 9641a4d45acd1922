"""Random resized crop and flip of a JPEG by libjpeg-turbo (simplejpeg) and OpenCV."""

import cv2
import numpy as np
import simplejpeg

from benchmarks.reading.shapes import SIDE

cv2.setNumThreads(0)  # the loaders have processes or threads of their own
_ATTEMPTS = 10


def decode(jpeg: bytes) -> np.ndarray:
    """uint8 [height, width, 3], by the cheapest arithmetic that libjpeg-turbo has."""
    return simplejpeg.decode_jpeg(jpeg, "RGB", fastdct=True, fastupsample=True)


def random_crop(jpeg: bytes, random: np.random.Generator) -> np.ndarray:
    """uint8 [SIDE, SIDE, 3]"""
    image = decode(jpeg)
    y, x, height, width = _box(*image.shape[:2], random)
    crop = cv2.resize(image[y : y + height, x : x + width], (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)
    return crop[:, ::-1] if random.random() < 0.5 else crop


def _box(height: int, width: int, random: np.random.Generator) -> tuple[int, int, int, int]:
    """Draws a box of 0.08 to 1 of the area, 3/4 to 4/3 as wide as high; the whole image if ten tries fail."""
    for _ in range(_ATTEMPTS):
        area = height * width * random.uniform(0.08, 1)
        ratio = np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3)))
        h, w = round((area / ratio) ** 0.5), round((area * ratio) ** 0.5)
        if 0 < h <= height and 0 < w <= width:
            return int(random.integers(height - h + 1)), int(random.integers(width - w + 1)), h, w
    return 0, 0, height, width
