"""Every experiment in pipeline/configs can be built, and says how to run it and what to expect."""

import importlib
import pathlib
import types

import pytest

from pipeline.base.cli import config
from pipeline.configs import base
from pipeline.data.preprocessing.preprocess import ModelInputs
from pipeline.data.schema.feature_types import Label, Tokens
from pipeline.data.schema.schema import Schema
from pipeline.training.engine.precision import Precision
from pipeline.training.experiment import model, optimizer
from tests.shared.parsed import parsed_for_any_rows

DIRECTORY = pathlib.Path(base.__file__).parent
EXPERIMENTS = sorted({path.stem for path in DIRECTORY.glob("*.py")} - {"__init__", "base"})
FLOAT32 = Precision(policy="float32", reason="")
ANY_INPUTS = ModelInputs(image_shape=(16, 16, 1), numeric=2, cardinalities=(3,), sequences={"text": (4, 10)})

CLASSES = Schema(name="any", features=(Label(name="y", classes=("no", "yes")),))
TEXT = Schema(name="text", features=(Tokens(name="tokens", length=8, vocabulary_size=20),))
TOKENS = ModelInputs(image_shape=None, numeric=0, cardinalities=(), sequences={"tokens": (8, 21)})


@pytest.fixture(params=EXPERIMENTS)
def experiment(request: pytest.FixtureRequest) -> types.ModuleType:
    return importlib.import_module(f"pipeline.configs.{request.param}")


def test_can_be_built(experiment):
    asked = parsed_for_any_rows(experiment.get_config())
    schema, inputs = (TEXT, TOKENS) if asked.model.name == "transformer" else (CLASSES, ANY_INPUTS)
    built = model.build_model(asked.model, schema=schema, inputs=inputs, precision=FLOAT32)
    optimizer.build(asked.optimizer, built.trainable_variables, total_steps=10, precision=FLOAT32)


def test_tells_command_and_hardware(experiment):
    assert f"--config=pipeline/configs/{experiment.__name__.rpartition('.')[2]}.py" in experiment.__doc__
    assert "Hardware: " in experiment.__doc__


def test_every_key_of_the_base_says_what_it_means():
    assert [key.name for key in config.keys_of(base) if not key.meaning] == []
    meanings = {key.name: key.meaning for key in config.keys_of(base)}
    assert meanings["augmentation.zoom"] == "largest change of scale: 0.1 means 0.9 to 1.1"
