"""A config as commands hand it on: parsed."""

from ml_collections import ConfigDict

from pipeline.training.experiment import config as config_lib
from pipeline.training.experiment.config import Experiment


def parsed(config: ConfigDict) -> Experiment:
    return config_lib.parse(config.to_dict())
