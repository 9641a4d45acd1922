"""A run on a mixture, killed on one replica and ended on two, with what each of its steps received."""

import dataclasses
import pathlib

import keras
import pytest

from pipeline.training.run import run
from tests.shared.parsed import parsed
from tests.shared.recorded import Ledger, recorded
from tests.shared.small_run import SCHEMA, rows, small_config, write_small_dataset
from tests.shared.tiny_dataset import write_dataset

KILLED_AFTER = 15  # steps


class KilledError(Exception):
    """What takes the place of kill -9 inside one process."""


class KillAfter(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        if batch + 1 >= KILLED_AFTER:
            raise KilledError


def train(directory: pathlib.Path) -> tuple[pathlib.Path, Ledger]:
    """The working directory of the run, and what it was trained on."""
    config, ledger = small_config(), {}
    dataset = write_small_dataset(directory / "main")
    other = write_dataset(directory / "other", SCHEMA, {"validation": rows(50, seed=3)})
    config.mixture = ((str(other.directory), "validation", 0.5),)
    request = run.Request(
        experiment=parsed(config),
        dataset=dataset,
        workdir=directory / "run",
        precision="float32",
        strategy="one_device",
    )
    with recorded(ledger):
        with pytest.MonkeyPatch.context() as changed, pytest.raises(KilledError):
            changed.setattr(run.callbacks, "build", lambda *args, **rest: [KillAfter()])
            run.train(request)
        run.train(dataclasses.replace(request, strategy="mirrored"))
    return request.workdir, ledger
