"""The same code beneath the same packages has the same digest."""

import importlib.metadata
import platform

import pytest

from pipeline.retraining import plan

fresh = plan.code_digest.__wrapped__  # of this moment, where a process computes it once


def test_it_stays_while_nothing_changes():
    assert fresh() == fresh() == plan.code_digest()


@pytest.mark.parametrize(
    "package", ["tensorflow", "keras", "numpy", "scipy", "statsmodels", "pyarrow", "pillow"]
)
def test_another_version_of_what_computes_is_other_code(monkeypatch, package):
    before, version = fresh(), importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "0.0.1" if name == package else version(name)
    )
    assert fresh() != before


def test_another_python_is_other_code(monkeypatch):
    before = fresh()
    monkeypatch.setattr(platform, "python_version", lambda: "3.99.0")
    assert fresh() != before
