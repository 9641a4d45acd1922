"""A cycle that a person has put on hold while it ran."""

from pipeline.data.errors import InputError
from pipeline.release.cycles.records import hold
from pipeline.release.cycles.stages.job import Job


class HeldError(InputError):
    """The cycle goes on when it is released: nothing is wrong."""

    exit_code = 0


def check(job: Job) -> None:
    """Raises HeldError where the file HOLD appeared since the cycle began."""
    if held := hold.why(job.root):
        raise HeldError(
            f"cycle {job.id}",
            received=f"HOLD: {held['reason']}",
            expected="no hold before a model is published",
            action="It goes on after `pipeline.retrain release --reason=…`.",
        )
