"""The shared fixtures that these tests use."""

from tests.shared.fixtures.exports import exported, module, requests, trained, warm  # noqa: F401
from tests.shared.fixtures.raw_data import convert_fruit, convert_people, fruit, people, run_binary  # noqa: F401
from tests.shared.fixtures.schedules import promoted, schedule, stopping_at  # noqa: F401
from tests.shared.fixtures.training_runs import config, dataset, killed_mixture, request_for  # noqa: F401
