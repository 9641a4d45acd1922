"""The statistics of a published dataset, or of several that are read as one."""

from pipeline.data.dataset import statistics
from pipeline.data.dataset.manifest import STATISTICS_FILE_NAME, Dataset, published_bytes
from pipeline.data.dataset.splits import TRAIN, in_order
from pipeline.data.dataset.statistics import SplitStatistics, Statistics
from pipeline.data.errors import InputError


def load(dataset: Dataset) -> Statistics:
    """Statistics of every split of a published dataset; raises InputError where the file is another."""
    if dataset.members:
        raise InputError(
            f"dataset {dataset}",
            received="several datasets that are read as one",
            expected="a single one: statistics of several are not merged",
            action="Name one dataset.",
        )
    return statistics.loads(published_bytes(dataset.directory, dataset.manifest, STATISTICS_FILE_NAME))


def of_training(dataset: Dataset) -> SplitStatistics:
    """Those of the train split, of which preprocessing is made whatever is trained on.

    Raises:
      InputError: the dataset has no such split, or the file is another than was published.
    """
    found = load(dataset)
    if TRAIN not in found:
        raise InputError(
            f"dataset {dataset}",
            received=f"the splits {', '.join(in_order(found))}",
            expected=f"one named '{TRAIN}': its statistics are what numbers are standardised by",
            action=f"Convert the data again, with --splits={TRAIN}=… among them.",
        )
    return found[TRAIN]
