"""Small images for tests, encoded by Pillow."""

import io

import numpy as np
import PIL.Image


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    """Random pixels, uint8 [*shape]."""
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def smooth(height: int, width: int) -> np.ndarray:
    """Slow gradients, which JPEG keeps nearly as they are: uint8 [height, width, 3]."""
    y, x = np.mgrid[0:1:height*1j, 0:1:width*1j]  # fmt: skip
    return np.stack([255 * x, 255 * y, 255 * (x + y) / 2], axis=-1).round().astype(np.uint8)


def encode(pixels: np.ndarray, file_format: str, *more_frames: np.ndarray, **options: object) -> bytes:
    """A file of `file_format`, "JPEG", "PNG", …; animated if there are more frames."""
    frames = [PIL.Image.fromarray(frame) for frame in (pixels, *more_frames)]
    if more_frames:
        options |= {"save_all": True, "append_images": frames[1:]}
    file = io.BytesIO()
    frames[0].save(file, file_format, **options)
    return file.getvalue()


def decode(data: bytes, mode: str = "RGB") -> np.ndarray:
    """What Pillow reads from a file: its first frame, in `mode`."""
    return np.asarray(PIL.Image.open(io.BytesIO(data)).convert(mode))
