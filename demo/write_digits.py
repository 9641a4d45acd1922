"""Writes scikit-learn's handwritten digits as a folder of PNG files, `<output>/<digit>/<number>.png`.

  python demo/write_digits.py --output=build/digits

1,797 grayscale images of 8x8 pixels. Their values 0 … 16 become 0 … 255, so that the files look as they
should; `round(pixel / 255 * 16)` gives the values back. Files of an earlier, complete run are kept.
"""

import pathlib
from collections.abc import Sequence

import numpy as np
import PIL.Image
from absl import app, flags
from sklearn.datasets import load_digits

_OUTPUT = flags.DEFINE_string("output", None, "Directory to write to.", required=True)
_LARGEST_VALUE = 16


def to_pixels(values: np.ndarray) -> np.ndarray:
    """0 … 16 → 0 … 255, uint8."""
    return np.round(values / _LARGEST_VALUE * 255).astype(np.uint8)


def write_digits(output: pathlib.Path) -> int:
    """Writes every digit that is not there yet; gives the number of images in all."""
    digits = load_digits()
    for number, (values, digit) in enumerate(zip(digits.images, digits.target, strict=True)):
        path = output / str(digit) / f"{number:04d}.png"
        if not path.exists():
            _write_png(path, to_pixels(values))
    return len(digits.target)


def _write_png(path: pathlib.Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Renamed when complete: a file that is there is whole. Hidden files are no part of an image folder.
    draft = path.with_name(f".{path.name}")
    PIL.Image.fromarray(pixels).save(draft, format="PNG")
    draft.replace(path)


def main(_: Sequence[str]) -> None:
    output = pathlib.Path(_OUTPUT.value)
    print(f"{write_digits(output):,} images in {output}")


if __name__ == "__main__":
    app.run(main)
