"""The fresh process of the infra check: `python -m pipeline.serving.probe DIRECTORY REQUESTS`.

It reads questions from stdin, one on each line, and answers each with a line of JSON on stdout. It ends when
stdin ends. It imports neither Keras nor this project's layers: a server has only TensorFlow.
"""

from pipeline.base import (
    machine,
    tensorflow_start,  # noqa: F401 - before TensorFlow
)

# isort: split

import contextlib
import json
import os
import pathlib
import queue
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from pipeline.data.dataset.records import GOLDEN_EXAMPLES, SERVING_DEFAULT
from pipeline.exporting import requests
from pipeline.exporting.requests import EXAMPLES, Call, Requests, numpy_arrays
from pipeline.serving.client import Answers, RefusedError, refuses, refuses_garbage

_WARM_CALLS = 5


# TensorFlow (2.21) quotes a request's bytes in its message; if Python cannot decode them, it raises
# ValueError.
_REFUSALS = (tf.errors.OpError, TypeError, ValueError)


class LoadedModel:
    """A SavedModel in this process, as a Client."""

    def __init__(self, directory: pathlib.Path) -> None:
        # Kept, because signatures by themselves lose their variables.
        self._module = tf.saved_model.load(str(directory))
        self.signatures = self._module.signatures

    def predict(self, call: Call) -> Mapping[str, np.ndarray]:
        """Returns the outputs by name."""
        if call.signature not in self.signatures:
            raise RefusedError("there is no such signature")
        inputs = {
            name: tf.constant(values, tf.string if values.dtype == object else None)
            for name, values in call.inputs.items()
        }
        try:
            return numpy_arrays(self.signatures[call.signature](**inputs))
        except _REFUSALS as error:
            text = " ".join(str(error).split())
            raise RefusedError(f"it raised {type(error).__name__}: {text[:300]}") from None


class Probe:
    """A loaded model, and the questions that it answers."""

    def __init__(self, directory: pathlib.Path, requests: Requests) -> None:
        self._directory = directory
        self._requests = requests
        self._model: LoadedModel | None = None
        self._asked: str = ""
        self._examples: np.ndarray | None = None
        tf.constant(0) + 1  # so that TensorFlow's own start does not count as the model's
        self._before = _mib("VmRSS")
        forget_peak()

    def answer(self, question: Mapping) -> Mapping:
        """Answers one question; see the methods."""
        answers = {
            "load": self.load,
            "replay": self.replay,
            "garbage": self.garbage,
            "choose": self.choose,
            "time": self.time,
            "memory": self.memory,
        }
        return answers[question["ask"]](**question.get("with", {}))

    def load(self) -> Mapping:
        """Loads the model; returns the time that it took, and its signatures in the form of
        `Requests.declared`.
        """
        started = time.monotonic()
        self._model = LoadedModel(self._directory)
        seconds = time.monotonic() - started
        return {"seconds": seconds, "signatures": dict(_signatures(self._model.signatures))}

    def replay(self) -> Mapping:
        """Replays all recorded calls; returns a sentence for each answer that is not as recorded."""
        exact = requests.computed_by() == dict(self._requests.computed_by)
        answers = Answers(exact=exact, tolerance=self._requests.tolerance)
        answers.ask(self._model, self._requests.calls)
        return {"exact": exact, "worst": answers.worst, "reasons": answers.reasons}

    def garbage(self) -> Mapping:
        """Checks that the model answers bytes that are not an example with an error."""
        return {"refused": refuses_garbage(self._model)}

    def choose(self) -> Mapping:
        """Chooses examples for timing: the recorded ones, or the model's own if it cannot read those."""
        self._asked, self._examples = "the recorded requests", self._requests.examples
        if refuses(self._model, self._examples):
            self._asked, self._examples = f"its own {GOLDEN_EXAMPLES}", self._golden()
        return {"asked": self._asked}

    def time(self, *, rows: int, calls: int) -> Mapping:
        """Returns the milliseconds of each call with `rows` rows, after a few calls to warm up."""
        serve = self._model.signatures[SERVING_DEFAULT]
        examples = tf.constant(np.resize(self._examples, rows))
        for _ in range(_WARM_CALLS):
            _call(serve, examples)
        return {"ms": [_timed(serve, examples) for _ in range(calls)]}

    def memory(self) -> Mapping:
        """Measures memory; see Measured."""
        peak = _mib("VmHWM")
        return {"process_mib": peak, "memory_mib": max(0.0, peak - self._before)}

    def _golden(self) -> np.ndarray:
        records = tf.data.TFRecordDataset(str(self._directory / GOLDEN_EXAMPLES))
        return np.array(list(records.as_numpy_iterator()), object)


def _signatures(functions: Mapping[str, Callable]) -> Iterator[tuple[str, Mapping]]:
    for name, function in functions.items():
        _, inputs = function.structured_input_signature
        outputs = function.structured_outputs
        described = ({key: _described(one) for key, one in each.items()} for each in (inputs, outputs))
        yield name, dict(zip(("inputs", "outputs"), described, strict=True))


def _described(spec: tf.TensorSpec) -> list:
    shape = spec.shape.as_list() if spec.shape.rank is not None else None
    return [spec.dtype.name, shape]


def _timed(serve: Callable, examples: tf.Tensor) -> float:
    started = time.perf_counter_ns()
    _call(serve, examples)
    return (time.perf_counter_ns() - started) / 1e6


def _call(serve: Callable, examples: tf.Tensor) -> None:
    """Calls the signature and waits for the numbers."""
    for output in serve(**{EXAMPLES: examples}).values():
        output.numpy()


def _questions() -> Iterator[Mapping]:
    """Yields the questions on stdin. The process ends with stdin, even if TensorFlow never returns."""
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
    os.dup2(2, 1)  # a model may print to stdout
    limit = int(argv[3]) if argv[3:] else 0
    if limit:
        limit_memory(limit)
    probe = Probe(pathlib.Path(argv[1]), requests.load(pathlib.Path(argv[2])))
    answers.write("{}\n")
    for question in _questions():
        try:
            answer = {"answer": probe.answer(question)}
        except Exception as error:  # errors of any class: TensorFlow's, and those of code that a model calls
            answer = {"error": _one_line(error)}
        answers.write(json.dumps(answer) + "\n")


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:500]}"


# --- Memory of this process, from Linux.


_CLEAR = pathlib.Path("/proc/self/clear_refs")
_FORGET_PEAK = "5"  # see proc(5)


def forget_peak() -> None:
    """Resets the peak, if the kernel permits it."""
    with contextlib.suppress(OSError):
        _CLEAR.write_text(_FORGET_PEAK)


def limit_memory(mib: int) -> None:
    """Limits the writable memory that the kernel gives to this process."""
    resource.setrlimit(resource.RLIMIT_DATA, (mib << 20, mib << 20))


def _mib(field: str) -> float:
    return machine.memory_bytes(field) / (1 << 20)


if __name__ == "__main__":
    main(sys.argv)
