"""The splits on which a run is evaluated, such as `validation` or `train[90%:]`. No TensorFlow."""

from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import TEST, TRAIN, VALIDATION, Dataset
from pipeline.data.dataset.selection import selected_ranges
from pipeline.training.experiment.config import Evaluation


def validation_split(evaluation: Evaluation, dataset: Dataset) -> str:
    """Returns the split evaluated after epochs; empty where none is requested or the usual one is missing.

    Raises:
      InputError: the config names another split, which the dataset does not have.
    """
    name = evaluation.split
    if not name or (name == VALIDATION and VALIDATION not in filled_splits(dataset)):
        return ""
    selected_ranges(dataset, name)
    return name


def final_split(evaluation: Evaluation, dataset: Dataset) -> str:
    """Returns the requested split, or the first there is of test, validation, what is validated, and train.

    Raises:
      InputError: the dataset does not have that split, or its test split is empty, which perhaps nobody has
        noticed.
    """
    if evaluation.final_split:
        selected_ranges(dataset, evaluation.final_split)
        return evaluation.final_split
    filled = filled_splits(dataset)
    if TEST in dataset.manifest.splits and TEST not in filled:
        raise InputError(
            f"split '{TEST}' of dataset {dataset}",
            received="0 rows",
            expected="at least one, to evaluate the trained model on",
            action="Convert more rows, or give the split some (--input=test=FILE, --splits); or evaluate on "
            "another split: "
            f"--config.evaluation.final_split={VALIDATION if VALIDATION in filled else TRAIN}",
        )
    first = next((split for split in (TEST, VALIDATION) if split in filled), "")
    return first or validation_split(evaluation, dataset) or TRAIN


def filled_splits(dataset: Dataset) -> dict[str, int]:
    """The splits that hold rows, and how many."""
    sizes = {split: dataset.rows(split) for split in dataset.manifest.splits}
    return {split: rows for split, rows in sizes.items() if rows}
