"""A config as commands hand it on: resolved for its dataset, and parsed."""

from ml_collections import ConfigDict

from pipeline.base.values import with_values
from pipeline.data.dataset.manifest import Dataset
from pipeline.training.experiment import config as config_lib
from pipeline.training.experiment import defaults
from pipeline.training.experiment.config import Experiment


def parsed_for_any_rows(config: ConfigDict) -> Experiment:
    """Parses a config of which a test needs nothing that depends on the rows."""
    values = config.to_dict()
    by_rows = defaults.by_rows(values, rows=1_000, is_validated=True)
    return config_lib.parse(with_values(values, by_rows))


def parsed(config: ConfigDict, dataset: Dataset | None = None) -> Experiment:
    """Parses a config; one that leaves values to rules needs the dataset."""
    values = config.to_dict()
    return config_lib.parse(defaults.resolve(values, dataset).values if dataset else values)
