"""The shared fixtures that these tests use."""

from tests.shared.fixtures.raw_data import convert_fruit, convert_people, fruit, people, run_binary  # noqa: F401
from tests.shared.fixtures.training_runs import config, dataset, killed_mixture, request_for  # noqa: F401
