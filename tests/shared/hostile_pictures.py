"""Pictures on which operations on pixels go wrong: small ones for tests, and those that are all edge."""

import numpy as np

from tests.shared.pictures import noise, smooth


def hostile_pictures(height: int = 24, width: int = 18) -> dict[str, np.ndarray]:
    """uint8 [height, width, 3] by name; the thin ones have a side of 1 or 2."""
    two = np.where(noise(height, width, 1) < 20, (200, 3, 77), (10, 21, 31)).astype(np.uint8)
    board = np.indices((height, width)).sum(axis=0)[..., None] % 2 * np.full(3, 255)
    pictures = {
        "noise": noise(height, width, 3),
        "dim noise": 30 + noise(height, width, 3) // 3,
        "gradient": smooth(height, width),
        "two colours": two,
        "checkerboard": board.astype(np.uint8),
        "a row": noise(1, width, 3),
        "a column": noise(height, 1, 3),
        "two rows": noise(2, width, 3),
        "one pixel": noise(1, 1, 3),
    }
    constant = {f"all {level}": np.full((height, width, 3), level, np.uint8) for level in (0, 77, 255)}
    colour = np.tile(np.array([10, 20, 31], np.uint8), (height, width, 1))  # its luma is no whole number
    return pictures | constant | {"one colour": colour, "one value out": _with_one(constant["all 77"])}


def _with_one(pixels: np.ndarray) -> np.ndarray:
    changed = pixels.copy()
    changed[0, 0] = (255, 0, 78)
    return changed
