"""Holds what becomes of training images against torchvision, and the Pillow it uses, operation by operation.

  python -m tests.augmentation [--peers=build/peers/bin/python]

Pixels of photographs and hostile pictures may differ by 1 level. What is drawn must be distributed alike: a
test with fixed seeds fails where its p-value is below 0.001. Prints a table of each; ends with 1 where one
fails. A minute on one core.
"""

import logging
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

import numpy as np
from absl import app, flags

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow
from tests.augmentation import comparison, ours
from tests.augmentation.comparison import Arrays
from tests.augmentation.pictures import pictures

_PEERS = flags.DEFINE_string("peers", "build/peers/bin/python", "Python that has torchvision: `make peers`.")


def by_torchvision(given: Arrays) -> Arrays:
    with tempfile.TemporaryDirectory() as folder:
        source, result = pathlib.Path(folder) / "pictures.npz", pathlib.Path(folder) / "result.npz"
        np.savez(source, **given)
        module = [_PEERS.value, "-m", "tests.augmentation.torchvision_side", source, result]
        subprocess.run(module, check=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
        return dict(np.load(result))


def by_us(given: Arrays) -> Iterator[tuple[str, np.ndarray]]:
    for name, picture in given.items():
        if picture.ndim == 1:
            found = ours.resized_jpeg(picture.tobytes())
        else:
            found = (*ours.changed(picture), *ours.resized(picture))
        yield from ((f"{key}/{name}", np.asarray(pixels)) for key, pixels in found)


def main(argv: Sequence[str]) -> None:
    del argv
    logging.getLogger("tensorflow").setLevel(
        logging.ERROR
    )  # every picture has a shape of its own, and is traced anew
    given = pictures()
    wanted = by_torchvision(given)
    failed = comparison.compare_pixels(dict(by_us(given)), wanted)
    theirs = {key.removeprefix("drawn/"): value for key, value in wanted.items() if key.startswith("drawn/")}
    failed += comparison.compare_draws(dict(ours.drawn()), theirs)
    sys.exit(f"{failed} of them differ" if failed else 0)


if __name__ == "__main__":
    app.run(main)
