"""Reads a dataset as training does: every row of its train split once, and some shuffled batches."""

import itertools
import pathlib
from collections.abc import Sequence

from pipeline.base.cli.command import Command
from pipeline.base.cli.run import answered
from pipeline.data.dataset import manifest
from pipeline.data.dataset.manifest import TRAIN
from pipeline.data.dataset.selection import select
from pipeline.data.statistics import loading

_BATCH = 16


def read(directory: str) -> int:
    """The exit code that a command would give; what is wrong is told on stderr."""
    return answered(
        _read, Command(name="tests.fuzz.reader", description="", flags={}, arguments="DIR"), ["", directory]
    )


def _read(argv: Sequence[str]) -> None:
    # Imported here, as the commands do: what is no dataset is told before.
    dataset = manifest.open_dataset(pathlib.Path(argv[1]))
    selection = select(dataset, TRAIN)
    from pipeline.data.input.batches import evaluation_batches, training_batches
    from pipeline.data.integrity.damage import naming_damage
    from pipeline.data.preprocessing.preprocess import Preprocess
    from pipeline.data.reading.plan import plan_reading
    from pipeline.data.reading.sharding import Share

    statistics = loading.load(dataset)[TRAIN]
    preprocess = Preprocess(dataset.schema, statistics, image_size=(14, 18))
    share = Share(global_batch=_BATCH)
    with naming_damage(selection):
        plan = plan_reading(selection, share=share, seed=0)
        for _ in itertools.islice(training_batches(plan, preprocess), 2 * selection.rows // _BATCH + 1):
            pass
        for _ in evaluation_batches(selection, preprocess, share=share):
            pass
