"""pipeline.retrain in a fork that has its libraries, whose children are such forks too; and one that dies.

  PYTHON -m tests.retraining.warm_retrain PYTHON DIES reconcile --config=… --root=…

DIES is `-`, or `STAGE:before` or `STAGE:behind`: this process kills itself there.
"""

import os
import runpy
import signal
import sys
from collections.abc import Callable, Mapping


def dying(stage: Callable, moment: str) -> Callable[[object], Mapping]:
    """The stage, with the death of this process before it, or behind its last act."""

    def run(job: object) -> Mapping:
        if moment == "behind":
            stage(job)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")

    return run


if __name__ == "__main__":
    _, python, dies, *arguments = sys.argv
    sys.executable = python
    if dies != "-":
        from pipeline.retraining import cycle

        name, moment = dies.split(":")
        cycle.STAGES = {**cycle.STAGES, name: dying(cycle.STAGES[name], moment)}
    sys.argv = ["pipeline.retrain", *arguments]
    runpy.run_module("pipeline.retrain", run_name="__main__", alter_sys=True)
