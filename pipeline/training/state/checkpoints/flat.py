"""The flat checkpoints of earlier versions, as TensorFlow's CheckpointManager writes them: `ckpt-STEP.…`.

TensorFlow's own list of them, the file `checkpoint`, is not trusted: where it is damaged, or names a
checkpoint that somebody removed, TensorFlow finds none, and a run would begin anew.
"""

import pathlib
import re

import tensorflow as tf

from pipeline.training.state.checkpoints.manifest import DamagedError

_FILE = re.compile(r"(ckpt-(\d+))\.(?:index|data-.*)")
_WHERE = re.compile(r"\{\{.*?\}\}\s*")  # the node of a graph, which TensorFlow's messages begin with


def found(root: pathlib.Path) -> list[tuple[int, pathlib.Path]]:
    """Step and prefix of all of which a file is there."""
    names = [path.name for path in root.glob("ckpt-*")]
    matches = {match[1]: int(match[2]) for name in names if (match := _FILE.fullmatch(name))}
    return [(step, root / name) for name, step in matches.items()]


def check(prefix: pathlib.Path) -> None:
    """Reads its files once; raises DamagedError where TensorFlow's checksums do not hold."""
    try:
        reader = tf.train.load_checkpoint(str(prefix))
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        raise DamagedError(f"{prefix.name}.index: {_first_line(error)}") from None
    try:
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        data = sorted(file.name for file in prefix.parent.glob(f"{prefix.name}.data-*"))
        raise DamagedError(f"{' or '.join(data) or f'{prefix.name}.data-*'}: {_first_line(error)}") from None


def delete(prefix: pathlib.Path) -> None:
    """Deletes its files."""
    for path in sorted(prefix.parent.glob(f"{prefix.name}.*")):
        path.unlink()


def _first_line(error: Exception) -> str:
    return _WHERE.sub("", str(error)).splitlines()[0]
