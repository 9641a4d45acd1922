"""Imports what the commands import, for a process that runs them in forks.

The commands themselves are left out: each defines flags, and runs as `__main__` in its fork.
"""


def preload() -> None:
    """What all commands import."""
    from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

    # isort: split
    import tensorflow_datasets as tfds

    from beam_jobs.inference import job as job_lib  # noqa: F401
    from pipeline.training.experiment import restore  # noqa: F401
    from pipeline.training.run import run as run_lib  # noqa: F401

    # TFDS imports these where they are first named.
    _ = tfds.core.ShardedFileTemplate, tfds.core.SplitInfo, tfds.features.FeaturesDict
    _ = tfds.folder_dataset.write_metadata
    preload_without_tensorflow()


def preload_without_tensorflow() -> None:
    """What infer_schema, convert and verify import."""
    from beam_jobs.checks import dataset  # noqa: F401
    from beam_jobs.conversion import job  # noqa: F401
    from beam_jobs.schema import proposal  # noqa: F401
    from pipeline.base.cli import run  # noqa: F401
