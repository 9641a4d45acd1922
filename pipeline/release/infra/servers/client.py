"""What a server is asked through, and how it may fail to answer."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from pipeline.release.infra.requests import Call


class AbsentError(Exception):
    """The server cannot be reached, or does not have the version yet; it may a moment later."""


class RefusedError(Exception):
    """The server answered with an error."""


class Client(Protocol):
    """A connection to a server of one version of one model."""

    def predict(self, call: Call, *, seconds: float) -> Mapping[str, np.ndarray]:
        """The outputs for the call's inputs, by name. Raises AbsentError and RefusedError."""

    def close(self) -> None:
        """Ends the connection."""
