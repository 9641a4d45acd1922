"""What a run begins with: the weights and statistics of a finished run, if it is asked to, else its own."""

import pathlib

from ml_collections import ConfigDict

from pipeline.data.commands import flag_values
from pipeline.data.dataset import statistics as statistics_lib
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.splits import TRAIN
from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.schema import schema as schema_lib
from pipeline.data.statistics import loading
from pipeline.training import best_checkpoint
from pipeline.training.request import plain
from pipeline.training.state import start as start_lib
from pipeline.training.state.checkpoints import kept
from pipeline.training.state.run_record import RunRecord
from pipeline.training.state.start import Start
from pipeline.training.state.workdir import Workdir


def resolve(
    asked: pathlib.Path | None,
    *,
    workdir: Workdir,
    before: RunRecord | None,
    config: ConfigDict,
    dataset: Dataset,
) -> Start | None:
    """What a run begins with; None where it begins from scratch.

    It is the best checkpoint of the run at `asked` where that run keeps one, else the last: what an export
    takes. A run that goes on needs no more than its own copy.

    Args:
      before: what run.json in `workdir` holds; None where the run begins.

    Raises:
      InputError: there is no such run, it is not finished, has no sound checkpoint, or has other weights than
        a model of this config on this dataset.
    """
    if asked is None:
        return None
    own = start_lib.own_copy(workdir, before) if before else None
    if own is None or own.told["workdir"] != str(flag_values.absolute(asked)):
        own = _found(asked)
    start_lib.require_fitting(own, plain(config), dataset.schema)
    return own


def statistics_of(start: Start | None, dataset: Dataset) -> SplitStatistics:
    """What preprocessing is built from: the statistics of the run that weights are of, else the dataset's."""
    if start is None:
        return loading.of_training(dataset)
    return statistics_lib.read(start.source.statistics)[TRAIN]


def _found(asked: pathlib.Path) -> Start:
    run, record = start_lib.finished_run(asked)
    keeps = best_checkpoint.kept(ConfigDict(record.config), schema_lib.load(run.schema).label)
    entry, *_ = kept.chosen(run.checkpoints, keeps.usual(run.checkpoints), kept=keeps)
    return start_lib.start_of(run, record, entry)
