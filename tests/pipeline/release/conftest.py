"""A sound export, and processes that start warm."""

import pathlib
import sys

import pytest
import tensorflow as tf

from pipeline.exporting import export
from pipeline.exporting import requests as requests_lib
from pipeline.exporting.export import Trained
from pipeline.exporting.requests import Requests
from tests.pipeline.release.people import ROWS, SCHEMA, small_model, write_people
from tests.shared.tiny_dataset import serialize


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return small_model(write_people(tmp_path_factory.mktemp("people") / "1.0.0"))


@pytest.fixture(scope="session")
def exported(
    trained: Trained, tmp_path_factory: pytest.TempPathFactory, warm_python: pathlib.Path
) -> pathlib.Path:
    """With requests of the 40 rows that nothing was trained on."""
    output = tmp_path_factory.mktemp("exports") / "1"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(warm_python))
        export.export_model(trained, output, examples=[serialize(SCHEMA, row) for row in ROWS[60:]])
    return output


@pytest.fixture(scope="session")
def requests(exported: pathlib.Path) -> Requests:
    return requests_lib.load(exported)


@pytest.fixture
def warm(warm_python: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fresh processes are forks of one that has imported TensorFlow, and nothing else of ours."""
    monkeypatch.setattr(sys, "executable", str(warm_python))


@pytest.fixture
def module(exported: pathlib.Path) -> tf.Module:
    return tf.saved_model.load(str(exported))
