"""--workers beside other flags, and on machines where it makes no sense."""

import pathlib

import pytest

from pipeline.base.errors import InputError
from pipeline.training.launch import workers

FITS = {"strategy": "auto", "replicas": 2, "global_batch": 16}


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setattr(workers, "_GPU", tmp_path / "none")


def test_what_fits_passes():
    workers.check_workers(2, **FITS)
    workers.check_workers(2, **FITS | {"strategy": "multi_worker"})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"strategy": "mirrored"}, r"--workers=2: received --strategy=mirrored too"),
        ({"global_batch": 15}, r"--config.global_batch: received 15; .*2 replicas. Set .*=16"),
        ({"global_batch": 0}, r"--config.global_batch: received 0"),
    ],
)
def test_what_does_not_is_refused(changed, message):
    with pytest.raises(InputError, match=message):
        workers.check_workers(2, **FITS | changed)


def test_a_worker_of_a_cluster_starts_no_others(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{}")
    with pytest.raises(InputError, match=r"--workers=2: received environment variable TF_CONFIG too"):
        workers.check_workers(2, **FITS)


def test_gpus_are_not_shared_out(monkeypatch):
    monkeypatch.setattr(workers, "_GPU", pathlib.Path("/dev/null"))
    with pytest.raises(InputError, match=r"a machine with GPUs.*--strategy=mirrored"):
        workers.check_workers(2, **FITS)


def test_no_more_than_memory_is_there_for(monkeypatch):
    monkeypatch.setattr(workers, "_memory", lambda: 16 << 30)
    with pytest.raises(InputError, match=r"--workers=1000: received 1,000 processes.*expected at most 23"):
        workers.check_workers(1_000, **FITS)
