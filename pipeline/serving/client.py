"""Asks a model, whatever serves it, and compares its answers with the recorded ones."""

import time
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from pipeline.data.dataset.records import SERVING_DEFAULT
from pipeline.exporting.requests import EXAMPLES, Call
from pipeline.report.comparison import differing_rows, largest_difference


class AbsentError(Exception):
    """Raised where the server cannot be reached, or does not have the version yet; a later try may
    succeed.
    """


class RefusedError(Exception):
    """Raised where the model answered with an error; the message is a clause that says so, such as `it
    refused: …`.
    """


class Client(Protocol):
    """Access to one version of one model: over REST, over gRPC, or loaded in this process."""

    def predict(self, call: Call) -> Mapping[str, np.ndarray]:
        """Returns the outputs by name. Raises AbsentError and RefusedError."""


def refuses(client: Client, examples: Sequence[bytes]) -> bool:
    """Returns whether the model answers serialized examples with an error; raises AbsentError."""
    inputs = {EXAMPLES: np.array(examples, object)}
    try:
        client.predict(Call(signature=SERVING_DEFAULT, inputs=inputs, outputs={"": np.zeros(1)}))
    except RefusedError:
        return True
    return False


def refuses_garbage(client: Client) -> bool:
    """Returns whether bytes that are no example are answered with an error, as they must be."""
    return refuses(client, [b"no serialized example"])


class Answers:
    """Makes recorded calls, compares the answers with the recorded ones, and collects the differences.

    Attributes:
      worst: the largest difference so far, as a share of the largest number of its answer.
      reasons: a sentence for each output that is not as recorded.
      took_ms: the milliseconds of each call that was answered.
    """

    def __init__(self, *, exact: bool, tolerance: float) -> None:
        self._exact = exact
        self._tolerance = tolerance
        self.worst = 0.0
        self.reasons: list[str] = []
        self.took_ms: list[float] = []

    def ask(self, client: Client, calls: Sequence[Call]) -> None:
        """Raises AbsentError. Outputs that were not recorded are left to the check of signatures."""
        for call in calls:
            started = time.monotonic()
            try:
                answer = client.predict(call)
            except RefusedError as error:
                self.reasons.append(f"{call}: {error}")
                continue
            self.took_ms.append(1000 * (time.monotonic() - started))
            for name, expected in call.outputs.items():
                if problem := self._problem(answer.get(name), expected):
                    self.reasons.append(f"{call}: output '{name}' {problem}")

    def _problem(self, found: np.ndarray | None, expected: np.ndarray) -> str:
        if found is None:
            return "is missing"
        if (found.dtype, found.shape) != (expected.dtype, expected.shape):
            return f"is {_format_type(found)} where {_format_type(expected)} was recorded"
        if expected.dtype.hasobject:  # text
            number = int(np.sum(found != expected))
            return f"differs from the recorded in {number:,} of {found.size:,} texts" if number else ""
        if not np.isfinite(found).all():
            return f"holds {np.sum(~np.isfinite(found)):,} values that are NaN or infinite, of {found.size:,}"
        return self._difference(found, expected)

    def _difference(self, found: np.ndarray, expected: np.ndarray) -> str:
        worst = largest_difference(found, expected) / (float(np.abs(expected).max(initial=0.0)) or 1.0)
        self.worst = max(self.worst, worst)
        if self._exact and differing_rows(found, expected).any():
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


def _format_type(values: np.ndarray) -> str:
    return f"{values.dtype}{list(values.shape)}"
