"""A worker of `--workers=N` that stops for a while at a moment, so that it is killed there.

The environment names the moment, and the file that tells of it.
"""

import os
import pathlib
import runpy
import time

_MOMENT, _TELLS = "PENSTOCK_MOMENT", "PENSTOCK_TELLS"
MOMENTS = ("start", "joining", "step", "save", "evaluation")
_SECONDS_TO_BE_KILLED = 5.0
_STEP, _EVALUATION = 7, 2


def environment(moment: str, tells: pathlib.Path) -> dict[str, str]:
    return {_MOMENT: moment, _TELLS: str(tells)}


def _here() -> None:
    """The moment: the chief tells of it, and waits."""
    if not _number():
        pathlib.Path(os.environ[_TELLS]).touch()
        time.sleep(_SECONDS_TO_BE_KILLED)


def _number() -> int:
    import json

    return json.loads(os.environ["TF_CONFIG"])["task"]["index"]


def _before(module: object, name: str, *, call: int = 1) -> None:
    """Has `module.name` begin with the moment, at its call of this number."""
    real, calls = getattr(module, name), iter(range(1, 1_000_000))

    def replaced(*arguments: object, **named: object) -> object:
        if next(calls) == call:
            _here()
        return real(*arguments, **named)

    setattr(module, name, replaced)


def _install(moment: str) -> None:
    from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow
    from pipeline.training.engine import cluster, evaluation, saving
    from tests.soak import hooks

    if moment == "start":
        _here()
    elif moment == "joining":
        _before(cluster, "notice_silence")
    elif moment == "save":
        _before(saving.manifest, "write", call=2)
    elif moment == "evaluation":
        _before(evaluation, "evaluation_steps", call=_EVALUATION)
    else:
        hooks._record_steps(lambda step, *_: _here() if int(step) == _STEP else None)


if __name__ == "__main__":
    _install(os.environ[_MOMENT])
    runpy.run_module("pipeline.training.launch.member", run_name="__main__", alter_sys=True)
