"""A small run, and a CPU split in two, so that there are two real replicas."""

import pathlib
from collections.abc import Callable

import pytest
from ml_collections import ConfigDict

from pipeline.data.dataset.manifest import Dataset
from pipeline.training.run.request import Request
from tests.pipeline.training.replaying import killed_mixture as killed_mixture_lib
from tests.pipeline.training.replaying.recorded import Ledger
from tests.pipeline.training.small_run import small_config, write_small_dataset
from tests.shared import two_cpus  # noqa: F401 - before TensorFlow's devices are used
from tests.shared.parsed import parsed


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write_small_dataset(tmp_path_factory.mktemp("tiny") / "1.0.0")


@pytest.fixture(scope="session")
def killed_mixture(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, Ledger]:
    """Working directory of a run that was killed on one replica and ended on two; what its steps received."""
    return killed_mixture_lib.train(tmp_path_factory.mktemp("killed"))


@pytest.fixture
def config() -> ConfigDict:
    return small_config()


@pytest.fixture
def request_for(dataset: Dataset, config: ConfigDict) -> Callable[..., Request]:
    """Makes requests to train the small config on the small dataset."""

    def make(workdir: pathlib.Path, **changes) -> Request:
        defaults = {"strategy": "one_device", "precision": "float32", "experiment": parsed(config)}
        return Request(dataset=dataset, workdir=workdir, **(defaults | changes))

    return make
