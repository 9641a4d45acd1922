"""Asks a server with recorded requests, and compares its answers."""

import contextlib
import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from pipeline.data.dataset.export_manifest import SERVING_DEFAULT
from pipeline.release.infra.answers import Answers
from pipeline.release.infra.requests import EXAMPLES, Call, Requests
from pipeline.release.infra.servers import address
from pipeline.release.infra.servers.client import AbsentError, Client, RefusedError

_SECONDS_A_CALL = 30.0
_PAUSE = 0.5  # seconds, after which a server is asked again whether it has the version
_GARBAGE = b"no serialized example"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Served:
    """What a server answered.

    Attributes:
      reasons: what was wrong, a sentence each.
      worst: the largest difference to what was recorded, as a share of the largest number of its answer.
      median_ms: of the calls, from here to the server and back; 0 where there was none.
    """

    url: str
    model: str
    version: int
    reasons: Sequence[str]
    calls: int = 0
    rows: int = 0
    worst: float = 0.0
    median_ms: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.reasons

    def to_json(self) -> Mapping[str, object]:
        """All of it, and `passed`."""
        return {"passed": self.passed, **dataclasses.asdict(self)}


def ask(
    url: str,
    requests: Requests,
    *,
    model: str,
    version: int,
    seconds: float = 120.0,
    sleep: Callable[[float], None] = time.sleep,
) -> Served:
    """Whether the server at `url` answers as recorded, within the tolerance: a server is another build.

    Requests without a row are left out: over REST an empty list has no type.

    Args:
      seconds: that the server has to load the version, after which its absence is a reason.

    Raises:
      InputError: `url` is no address of a server.
    """
    result = Served(url=url, model=model, version=version, reasons=())
    calls = [call for call in requests.calls if call.rows]
    with contextlib.closing(address.client(url, model=model, version=version)) as client:
        try:
            _wait(client, calls[0], seconds, sleep)
            answers, took = _answers(client, calls, requests.tolerance)
        except AbsentError as error:
            told = f"the server at {url} does not serve version {version} of model '{model}': {error}"
            return dataclasses.replace(result, reasons=[told])
        garbage = _garbage_reasons(client)
    return dataclasses.replace(
        result,
        reasons=[f"the server at {url}, {each}" for each in (*answers.reasons, *garbage)],
        calls=len(calls),
        rows=sum(call.rows for call in calls),
        worst=answers.worst,
        median_ms=statistics.median(took) if took else 0.0,
    )


def _wait(client: Client, call: Call, seconds: float, sleep: Callable[[float], None]) -> None:
    """Asks until the server has the version; raises AbsentError after so many seconds."""
    for left in range(int(seconds / _PAUSE), -1, -1):
        try:
            client.predict(call, seconds=_SECONDS_A_CALL)
            return
        except RefusedError:  # it is there
            return
        except AbsentError:
            if not left:
                raise
            sleep(_PAUSE)


def _answers(client: Client, calls: Sequence[Call], tolerance: float) -> tuple[Answers, list[float]]:
    """What the server made of the calls, and the milliseconds that each took."""
    answers, took = Answers(exact=False, tolerance=tolerance), []
    for call in calls:
        started = time.monotonic()
        where = f"'{call.signature}' asked with {call.rows:,} row{'s' * (call.rows != 1)}"
        try:
            outputs = client.predict(call, seconds=_SECONDS_A_CALL)
        except RefusedError as error:
            answers.reasons.append(f"{where}: it refused: {error}")
            continue
        took.append(1000 * (time.monotonic() - started))
        answers.of_answer(where, outputs, call.outputs)
    return answers, took


def _garbage_reasons(client: Client) -> list[str]:
    garbage = Call(
        signature=SERVING_DEFAULT, inputs={EXAMPLES: np.array([_GARBAGE], object)}, outputs={"": np.zeros(1)}
    )
    try:
        client.predict(garbage, seconds=_SECONDS_A_CALL)
    except RefusedError:
        return []
    except AbsentError as error:
        return [f"asked with bytes that are no example, was gone: {error}"]
    return ["asked with bytes that are no example, answered as if they were one"]
