"""Documents of JSON that also hold arrays: the arrays are taken out, to be written as tensors."""

import json
from collections.abc import Sequence

import numpy as np

_MARK = "$array"  # {"$array": 3} stands for array 3


def packed(document: object) -> tuple[str, list[np.ndarray]]:
    """The document as JSON, and copies of its arrays. Tuples become lists."""
    arrays: list[np.ndarray] = []

    def taken_out(value: object) -> dict[str, int]:
        if not isinstance(value, np.ndarray | np.generic):
            raise TypeError(f"a checkpoint cannot hold a {type(value).__name__}")
        arrays.append(np.array(value))
        return {_MARK: len(arrays) - 1}

    return json.dumps(document, default=taken_out), arrays


def unpacked(text: str, arrays: Sequence[np.ndarray]) -> object:
    """What `packed` was given."""

    def put_back(value: dict) -> object:
        return arrays[value[_MARK]] if value.keys() == {_MARK} else value

    return json.loads(text, object_hook=put_back)
