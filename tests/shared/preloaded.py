"""Imports what the commands import, for a process that runs them in forks.

The commands themselves are left out: each defines flags, and runs as `__main__` in its fork.
"""


def preload() -> None:
    """What all commands import."""
    from pipeline.data import quiet  # noqa: F401 - before TensorFlow

    # isort: split
    import tensorflow_datasets as tfds

    from beam_jobs.inference import job  # noqa: F401
    from pipeline.release import export, scoring  # noqa: F401
    from pipeline.training import restore, run  # noqa: F401

    # TFDS imports these where they are first named.
    _ = tfds.core.ShardedFileTemplate, tfds.core.SplitInfo, tfds.features.FeaturesDict
    _ = tfds.folder_dataset.write_metadata
    preload_without_tensorflow()


def preload_without_tensorflow() -> None:
    """What infer_schema, convert and verify import."""
    from beam_jobs.conversion import job  # noqa: F401
    from beam_jobs.proposal import from_source  # noqa: F401
    from beam_jobs.sources import flags  # noqa: F401
    from beam_jobs.verification import dataset  # noqa: F401
    from pipeline.data.commands import run  # noqa: F401
