"""The rows of a CSVLogger over a restart: those of before the checkpoint, each once, and no others."""

import pathlib
from collections.abc import Mapping

import keras

from pipeline.data import atomic_files


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
