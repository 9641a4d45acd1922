"""Answers of a loaded signature against those that were recorded."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from pipeline.release.infra.requests import EXAMPLES, Call

Serve = Callable[..., Mapping[str, tf.Tensor]]

# TensorFlow quotes a request's bytes in its message, which Python cannot always read (2.21).
_REFUSALS = (tf.errors.OpError, UnicodeDecodeError)


class Answers:
    """Compares calls, and keeps what was wrong with them.

    Attributes:
      worst: the largest difference so far, as a share of the largest number of its answer.
      reasons: a sentence for each output that is not as recorded.
    """

    def __init__(self, *, exact: bool, tolerance: float) -> None:
        self._exact = exact
        self._tolerance = tolerance
        self.worst = 0.0
        self.reasons: list[str] = []

    def compare(self, call: Call, serve: Serve | None) -> None:
        """Asks `serve` what the call asks; None: there is no such signature."""
        where = f"'{call.signature}' asked with {call.rows:,} row{'s' * (call.rows != 1)}"
        if serve is None:
            self.reasons.append(f"{where}: there is no such signature")
            return
        try:
            answer = {name: each.numpy() for name, each in serve(**_tensors(call.inputs)).items()}
        except (*_REFUSALS, TypeError, ValueError) as error:
            text = " ".join(str(error).split())
            self.reasons.append(f"{where}: it raised {type(error).__name__}: {text[:300]}")
            return
        self.of_answer(where, answer, call.outputs)

    def of_answer(
        self, where: str, answer: Mapping[str, np.ndarray], recorded: Mapping[str, np.ndarray]
    ) -> None:
        """Compares named arrays; what was not recorded is not looked at, as its signature already is."""
        for name, expected in recorded.items():
            problem = self._problem(answer.get(name), expected)
            if problem:
                self.reasons.append(f"{where}: output '{name}' {problem}")

    def _problem(self, found: np.ndarray | None, expected: np.ndarray) -> str:
        if found is None:
            return "is missing"
        if (found.dtype, found.shape) != (expected.dtype, expected.shape):
            return f"is {_told(found)} where {_told(expected)} was recorded"
        if not np.isfinite(found).all():
            return f"holds {np.sum(~np.isfinite(found)):,} values that are NaN or infinite, of {found.size:,}"
        return self._difference(found, expected)

    def _difference(self, found: np.ndarray, expected: np.ndarray) -> str:
        worst = _share(found, expected)
        self.worst = max(self.worst, worst)
        if self._exact and found.tobytes() != expected.tobytes():
            number = np.sum(found != expected)
            return (
                f"differs from the recorded in {number:,} of {found.size:,} values, by up to {worst:.3g} of "
                "the largest; every bit must be the same, on the build and the processor of the recording"
            )
        if not self._exact and worst > self._tolerance:
            return (
                f"differs from the recorded by up to {worst:.3g} of the largest; at most "
                f"{self._tolerance:.3g} is allowed, on another build or processor than the recording's"
            )
        return ""


def refused(serve: Serve, examples: Sequence[bytes]) -> bool:
    """Whether the signature answers serialized examples with an error."""
    try:
        for each in serve(**{EXAMPLES: tf.constant(np.array(examples, object), tf.string)}).values():
            each.numpy()
    except _REFUSALS:
        return True
    return False


def _tensors(inputs: Mapping[str, np.ndarray]) -> dict[str, tf.Tensor]:
    texts = {name: values.dtype == object for name, values in inputs.items()}
    return {
        name: tf.constant(values, tf.string) if texts[name] else tf.constant(values)
        for name, values in inputs.items()
    }


def _share(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference as a share of the largest number expected; 0 of nothing."""
    if not found.size:
        return 0.0
    one, other = found.astype(np.float64), expected.astype(np.float64)
    difference, largest = np.max(np.abs(one - other)), np.max(np.abs(other))
    return float(difference / largest) if largest else float(difference)


def _told(values: np.ndarray) -> str:
    return f"{values.dtype}{list(values.shape)}"
