"""A CSVLogger with all its columns, and its rows over a restart: each of before the checkpoint once."""

import pathlib
from collections.abc import Mapping, Sequence

import keras

from pipeline.data import atomic_files


class CSVLogger(keras.callbacks.CSVLogger):
    """Keras's, with a column of each number that is logged in any epoch.

    Keras (3.15) takes the columns from the first epoch. Where no validation is due in it, it adds those of
    training once more as `val_…`: one that a validation alone has, such as `val_auc`, would be left out.
    """

    def __init__(self, filename: str, *, logged: Sequence[str] = (), **arguments) -> None:
        super().__init__(filename, **arguments)
        self._logged = logged

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self.keys = self.keys or sorted({*self._logged, *(logs or {})})
        super().on_epoch_end(epoch, logs)


def state(callback: keras.callbacks.CSVLogger) -> dict:
    """The columns, and the text of the file: a line an epoch. The file itself may be deleted meanwhile."""
    path = pathlib.Path(callback.filename)
    text = path.read_bytes().decode() if path.is_file() else ""
    return {"keys": callback.keys, "text": text}


def restore(callback: keras.callbacks.CSVLogger, kept: Mapping) -> None:
    """Writes the file as it was, and goes on after its last line."""
    if "text" not in kept:  # of an earlier version, which began the file anew
        return
    path = pathlib.Path(callback.filename)
    callback.csv_file.close()
    if path.is_file():
        atomic_files.write_bytes(path, kept["text"].encode())
    callback.csv_file = path.open("a")
    callback.writer, callback.keys = None, kept["keys"]
    callback.append_header = not kept["text"]
