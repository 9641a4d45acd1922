"""A torch loop on the same model and batches, in the peers' environment and in a process of its own."""

import json
import pathlib
import subprocess
from collections.abc import Callable

import keras
import numpy as np

from benchmarks.training.workloads import Workload

_ROOT = pathlib.Path(__file__).parents[2]
# Threads that have nothing to do sleep. Spinning, as OpenMP does otherwise, took up to 30 times the CPU time
# where another process was at work (torch 2.13, 2 cores, measured).
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "OMP_WAIT_POLICY": "PASSIVE"}
_NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}
_BATCHES = 64  # that lie in memory
_TOLERANCE = 1e-3  # of logits, whose sizes are about 1


def torch_loop(
    workload: Workload,
    *,
    python: pathlib.Path,
    folder: pathlib.Path,
    packages: str = "",
    clock: str = "cpu",
) -> Callable[[int], float]:
    """Returns a function from a number of steps, which it runs, to the seconds of one.

    Args:
      clock: `cpu`, the process's time on the processor; or `wall`, and on a GPU if torch finds one.
      python: of an environment with requirements/peers.txt.
      folder: where the model's weights and batches are written.
      packages: a folder whose packages `python` has besides its own, such as torch.

    Raises:
      ValueError: the two models answer otherwise, so what they cost must not be compared.
    """
    model = _without_zeros(workload.model())
    folder.mkdir()
    np.savez(
        folder / "weights.npz", **{str(n): np.asarray(v) for n, v in enumerate(model.trainable_variables)}
    )
    pairs = list(workload.batches.take(_BATCHES).as_numpy_iterator())
    inputs = {name: np.stack([inputs[name] for inputs, _ in pairs]) for name in pairs[0][0]}
    np.savez(folder / "batches.npz", **inputs, **{"": np.stack([labels for _, labels in pairs])})
    (folder / "options.json").write_text(json.dumps({**workload.torch, "clock": clock}))
    process = subprocess.Popen(
        [python, "-m", "benchmarks.peers.torch_loop", folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=_ROOT,
        env={**_ENVIRONMENT, "PYTHONPATH": packages, **({} if clock == "wall" else _NO_GPU)},
        text=True,
    )
    _require_same(model, pairs[0][0], np.asarray(json.loads(_answer(process))))

    def train(steps: int) -> float:
        process.stdin.write(f"{steps}\n")
        process.stdin.flush()
        return float(_answer(process))

    return train


def _without_zeros(model: keras.Model) -> keras.Model:
    """The model with small numbers for each variable that begins as 0, which would hide its part."""
    draw = np.random.default_rng(0)
    for each in model.trainable_variables:
        if not np.any(np.asarray(each)):
            each.assign(draw.normal(scale=0.1, size=each.shape))
    return model


def _answer(process: subprocess.Popen) -> str:
    line = process.stdout.readline()
    if not line:
        raise ValueError(f"The torch loop ended with {process.wait()}; what it wrote stands above.")
    return line


def _require_same(model: keras.Model, inputs: dict[str, np.ndarray], theirs: np.ndarray) -> None:
    difference = np.abs(np.asarray(model(inputs, training=False)) - theirs).max()
    if not difference <= _TOLERANCE:
        raise ValueError(f"The torch model's logits differ from Keras's by {difference:.2g}.")
