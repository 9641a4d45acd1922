"""The training stream of a run that is over, or elsewhere: from its working directory and its datasets."""

import dataclasses
import pathlib
from collections.abc import Sequence

from pipeline.data.dataset import statistics as statistics_lib
from pipeline.data.dataset.selection import Selection, select
from pipeline.data.dataset.splits import TRAIN
from pipeline.data.errors import InputError
from pipeline.data.images.augmentation import Augmentation
from pipeline.data.integrity import damage_budget
from pipeline.data.reading import order
from pipeline.training.experiment import training_data
from pipeline.training.experiment.model import build_preprocess
from pipeline.training.replaying import run_datasets
from pipeline.training.replaying.training_stream import TrainingStream
from pipeline.training.state import run_record
from pipeline.training.state import workdir as files
from pipeline.training.state.run_record import RunRecord
from pipeline.training.state.workdir import Workdir


def open_stream(
    run: Workdir, record: RunRecord, *, moved_to: Sequence[str | pathlib.Path] = ()
) -> TrainingStream:
    """What the run trained on.

    Args:
      moved_to: where datasets of the run are now, if they are not where they were.

    Raises:
      InputError: there is no such dataset, or it is another; or the run's order of rows, or augmentation of
        images, is of a version that this one does not know.
    """
    _require_known_versions(record)
    run_record.check_files(run.path, record)
    found, config = run_datasets.of_run(record, moved_to=moved_to)
    selections = {config.train.split: select(found, config.train.split), **training_data.others(config)}
    sound = {name: _as_trained(each, run) for name, each in selections.items()}
    statistics = statistics_lib.read(run.statistics)[TRAIN]
    return TrainingStream(
        config=config,
        data=training_data.training_data(config, sound),
        preprocess=build_preprocess(config, found.schema, statistics),
    )


def _as_trained(selection: Selection, run: Workdir) -> Selection:
    """Without the records that the run left out.

    It counts as checked: what is damaged elsewhere changes no batch, and reading all of it may take hours.
    The records of a step that is told are compared with their hashes.
    """
    left_out = files.read_json(run.damaged)
    if left_out:
        selection = damage_budget.without(selection, damage_budget.from_json(left_out))
    return dataclasses.replace(selection, is_checked=True)


def _require_known_versions(record: RunRecord) -> None:
    """Of the order of rows, and of what becomes of images."""
    augmentation = Augmentation(**record.config.get("augmentation", {})).version
    for thing, was, is_ in (
        ("order of rows", record.order, order.VERSION),
        ("augmentation of images", record.augmentation, augmentation),
    ):
        if was != is_:
            raise InputError(
                f"--workdir, {thing}",
                received=f"version {was}" if was else "a run from before there were versions",
                expected=f"version {is_}, which this Penstock has",
                action="Replay it with the Penstock that trained it: run.json names its version.",
            )
