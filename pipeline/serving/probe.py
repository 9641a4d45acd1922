"""The fresh process of the infra check: `python -m pipeline.serving.probe DIRECTORY REQUESTS`.

It reads a question a line from stdin, answers each with a line of JSON on stdout, and ends where stdin ends.
It imports neither Keras nor this project's layers: what serves has TensorFlow alone.
"""

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

# isort: split

import contextlib
import json
import os
import pathlib
import queue
import re
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from pipeline.data.dataset.records import GOLDEN_EXAMPLES, SERVING_DEFAULT
from pipeline.exporting import requests
from pipeline.exporting.requests import EXAMPLES, Answers, Requests, refused

# isort: split


_WARM_CALLS = 5
_GARBAGE = b"no serialized example"


class Probe:
    """A loaded model and what it is asked."""

    def __init__(self, directory: pathlib.Path, requests: Requests) -> None:
        self._directory = directory
        self._requests = requests
        self._model: tf.Module | None = None
        self._asked: str = ""
        self._examples: np.ndarray | None = None
        tf.constant(0) + 1  # TensorFlow's own start is not the model's
        self._before = resident_mib()
        forget_peak()

    def answer(self, question: Mapping) -> Mapping:
        """What one question asks for; see the methods."""
        asked = {
            "load": self.load,
            "replay": self.replay,
            "garbage": self.garbage,
            "choose": self.choose,
            "time": self.time,
            "memory": self.memory,
        }
        return asked[question["ask"]](**question.get("with", {}))

    def load(self) -> Mapping:
        """Loads the model; its signatures as `Requests.declared` has them."""
        started = time.monotonic()
        self._model = tf.saved_model.load(str(self._directory))
        seconds = time.monotonic() - started
        return {"seconds": seconds, "signatures": dict(_signatures(self._model))}

    def replay(self) -> Mapping:
        """All recorded calls: how they were answered, a sentence for each that was not as recorded."""
        exact = requests.computed_by() == dict(self._requests.computed_by)
        answers = Answers(exact=exact, tolerance=self._requests.tolerance)
        for call in self._requests.calls:
            answers.compare(call, self._model.signatures.get(call.signature))
        return {"exact": exact, "worst": answers.worst, "reasons": answers.reasons}

    def garbage(self) -> Mapping:
        """Whether a request of bytes that are no example is answered with an error."""
        return {"refused": refused(self._model.signatures[SERVING_DEFAULT], [_GARBAGE])}

    def choose(self) -> Mapping:
        """Takes the examples to be timed with: those recorded, or the model's own if it cannot read those."""
        self._asked, self._examples = "the recorded requests", self._requests.examples
        if refused(self._model.signatures[SERVING_DEFAULT], self._examples):
            self._asked, self._examples = f"its own {GOLDEN_EXAMPLES}", self._golden()
        return {"asked": self._asked}

    def time(self, *, rows: int, calls: int) -> Mapping:
        """Milliseconds of each call with so many rows, after a few that do not count."""
        serve = self._model.signatures[SERVING_DEFAULT]
        examples = tf.constant(np.resize(self._examples, rows))
        for _ in range(_WARM_CALLS):
            _called(serve, examples)
        return {"ms": [_timed(serve, examples) for _ in range(calls)]}

    def memory(self) -> Mapping:
        """See Measured."""
        peak = peak_mib()
        return {"process_mib": peak, "memory_mib": max(0.0, peak - self._before)}

    def _golden(self) -> np.ndarray:
        records = tf.data.TFRecordDataset(str(self._directory / GOLDEN_EXAMPLES))
        return np.array(list(records.as_numpy_iterator()), object)


def _signatures(model: tf.Module) -> Iterator[tuple[str, Mapping]]:
    for name, function in model.signatures.items():
        _, inputs = function.structured_input_signature
        outputs = function.structured_outputs
        described = ({key: _described(one) for key, one in each.items()} for each in (inputs, outputs))
        yield name, dict(zip(("inputs", "outputs"), described, strict=True))


def _described(spec: tf.TensorSpec) -> list:
    shape = spec.shape.as_list() if spec.shape.rank is not None else None
    return [spec.dtype.name, shape]


def _timed(serve: Callable, examples: tf.Tensor) -> float:
    started = time.perf_counter_ns()
    _called(serve, examples)
    return (time.perf_counter_ns() - started) / 1e6


def _called(serve: Callable, examples: tf.Tensor) -> None:
    """Calls it and waits for the numbers."""
    for output in serve(**{EXAMPLES: examples}).values():
        output.numpy()


def _questions() -> Iterator[Mapping]:
    """Those on stdin. The process ends with it, also where TensorFlow never returns."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            waiting.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield json.loads(waiting.get())


def main(argv: Sequence[str]) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a model prints is no answer
    limit = int(argv[3]) if argv[3:] else 0
    if limit:
        limit_memory(limit)
    probe = Probe(pathlib.Path(argv[1]), requests.load(pathlib.Path(argv[2])))
    answers.write("{}\n")
    for question in _questions():
        try:
            answer = {"answer": probe.answer(question)}
        except Exception as error:  # of any kind: TensorFlow's, and those of what a model calls
            answer = {"error": _one_line(error)}
        answers.write(json.dumps(answer) + "\n")


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:500]}"


# --- Memory of this process, as Linux tells it; needs no package.


_STATUS = pathlib.Path("/proc/self/status")
_CLEAR = pathlib.Path("/proc/self/clear_refs")
_FORGET_PEAK = "5"  # see proc(5)


def resident_mib() -> float:
    """What is in memory now."""
    return _told("VmRSS")


def peak_mib() -> float:
    """The most that was in memory since the start, or since `forget_peak`."""
    return _told("VmHWM")


def forget_peak() -> None:
    """Lets the peak be counted anew, where the kernel permits it."""
    with contextlib.suppress(OSError):
        _CLEAR.write_text(_FORGET_PEAK)


def limit_memory(mib: int) -> None:
    """Lets the kernel refuse what this process asks for beyond so much of memory that it can write to."""
    resource.setrlimit(resource.RLIMIT_DATA, (mib << 20, mib << 20))


def _told(field: str) -> float:
    found = re.search(rf"^{field}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    return int(found[1]) / 1024


if __name__ == "__main__":
    main(sys.argv)
