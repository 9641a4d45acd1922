"""The shared fixtures that these tests use."""

from tests.shared.fixtures.training_runs import config, dataset, killed_mixture, request_for  # noqa: F401
