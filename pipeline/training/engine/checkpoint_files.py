"""The checkpoints that lie in a directory, and whether one is whole.

TensorFlow's own list of them, the file `checkpoint`, is not trusted: where it is damaged, or names a
checkpoint that somebody removed, TensorFlow finds none, and a run would begin anew.
"""

import pathlib
import re

import tensorflow as tf

_INDEX = re.compile(r"ckpt-(\d+)\.index")
_WHERE = re.compile(r"\{\{.*?\}\}\s*")  # the node of a graph, which TensorFlow's messages begin with


def newest_first(directory: pathlib.Path, *, up_to: int | None = None) -> list[str]:
    """The checkpoints, of at most `up_to` steps, as TensorFlow takes them: each path ends in `ckpt-STEP`."""
    found = [_INDEX.fullmatch(path.name) for path in directory.glob("ckpt-*.index")]
    steps = sorted((int(match[1]) for match in found if match), reverse=True)
    return [of_step(directory, step) for step in steps if up_to is None or step <= up_to]


def of_step(directory: pathlib.Path, step: int) -> str:
    return str(directory / f"ckpt-{step}")


def step_of(checkpoint: str) -> int:
    return int(checkpoint.rpartition("-")[2])


def damage(checkpoint: str) -> str:
    """What is wrong with its files, which are read once; empty where nothing is."""
    try:
        reader = tf.train.load_checkpoint(checkpoint)
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        return f"{pathlib.Path(checkpoint).name}.index: {_first_line(error)}"
    try:
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        path = pathlib.Path(checkpoint)
        data = sorted(file.name for file in path.parent.glob(f"{path.name}.data-*"))
        return f"{' or '.join(data) or f'{path.name}.data-*'}: {_first_line(error)}"
    return ""


def list_anew(directory: pathlib.Path) -> None:
    """Writes TensorFlow's list as the directory is, so that its manager keeps count of what is there."""
    found = newest_first(directory)
    if found:
        oldest_first = found[::-1]
        tf.compat.v1.train.update_checkpoint_state(
            str(directory),
            model_checkpoint_path=found[0],
            all_model_checkpoint_paths=oldest_first,
            all_model_checkpoint_timestamps=[
                pathlib.Path(f"{each}.index").stat().st_mtime for each in oldest_first
            ],
        )


def _first_line(error: Exception) -> str:
    return _WHERE.sub("", str(error)).splitlines()[0]
