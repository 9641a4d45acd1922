"""Photographs, and pictures on which operations on pixels go wrong."""

import numpy as np
import PIL.Image
import sklearn.datasets

from tests.shared.hostile_pictures import hostile_pictures
from tests.shared.pictures import encode

_SUBSAMPLINGS = (0, 2)  # of a JPEG's colour: none, and in both directions


def pictures() -> dict[str, np.ndarray]:
    """uint8 [height, width, 3], or the bytes of a JPEG, uint8 [n], by name."""
    photos = {
        name: np.asarray(PIL.Image.fromarray(pixels).resize((320, 213), PIL.Image.Resampling.LANCZOS))
        for name, pixels in photographs().items()
    }
    jpegs = {
        f"{name} {sampling}": np.frombuffer(encode(pixels, "JPEG", subsampling=sampling), np.uint8)
        for name, pixels in (photographs() | hostile_pictures(64, 52)).items()
        for sampling in _SUBSAMPLINGS
    }
    return hostile_pictures(60, 44) | photos | {f"jpeg, {name}": data for name, data in jpegs.items()}


def photographs() -> dict[str, np.ndarray]:
    """scikit-learn's two, uint8 [427, 640, 3]."""
    found = sklearn.datasets.load_sample_images()
    return dict(zip(("china", "flower"), found.images, strict=True))
