"""Equal records in different splits are found, however many fit into memory."""

import numpy as np
import pytest

from beam_jobs.checks import leakage
from beam_jobs.checks.anomalies import Policy
from pipeline.data.dataset import row_hashes
from pipeline.data.dataset.row_hashes import Leak


def hashes(*numbers: int) -> np.ndarray:
    """Spread over the whole range, as those of contents are."""
    return np.array(numbers, np.uint64) * np.uint64(0x9E3779B97F4A7C15)


TRAIN = [hashes(*range(1000)), hashes(*range(990, 1500))]
SPLITS = {
    "train": [lambda: TRAIN[0], lambda: TRAIN[1]],
    "validation": [lambda: hashes(7, 7, 2000, 2001)],
    "test": [lambda: hashes(2001, 3000), lambda: hashes()],
    "clean": [lambda: hashes(4000)],
}


@pytest.mark.parametrize("at_once", [1 << 20, 100])
def test_leaks_are_counted(at_once: int):
    assert row_hashes.leaks(SPLITS, rows=1517, at_once=at_once) == [
        Leak(split="validation", earlier="train", rows=2, hashes=tuple(hashes(7).tolist())),
        Leak(split="test", earlier="validation", rows=1, hashes=tuple(hashes(2001).tolist())),
    ]


def test_a_leak_is_an_anomaly_above_its_limit():
    leak = Leak(split="test", earlier="train", rows=2, hashes=(7,))
    [found] = leakage.anomaly(leak, ["x record 3"], Policy(severities={"leakage": "error"}), of=100)
    assert (found.severity, found.value, found.threshold) == ("error", 0.02, 0.0)
    assert found.message == "2 of 100 records are also in split 'train', for example x record 3"
    assert not [*leakage.anomaly(leak, [], Policy(limits={"leakage": 0.02}), of=100)]
