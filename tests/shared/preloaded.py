"""Imports what the commands import, for a process that runs them in forks.

The commands themselves are left out: each defines flags, and runs as `__main__` in its fork.
"""


def preload() -> None:
    """What all commands import."""
    from pipeline.data import quiet  # noqa: F401 - before TensorFlow

    # isort: split
    from beam_jobs.inference import job  # noqa: F401
    from pipeline.release import export, scoring  # noqa: F401
    from pipeline.training import restore, run  # noqa: F401

    preload_without_tensorflow()


def preload_without_tensorflow() -> None:
    """What infer_schema, convert and verify import."""
    from beam_jobs.conversion import job  # noqa: F401
    from beam_jobs.proposal import from_source  # noqa: F401
    from beam_jobs.verification import dataset  # noqa: F401
