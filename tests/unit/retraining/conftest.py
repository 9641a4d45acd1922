"""The shared fixtures that these tests use."""

from tests.shared.fixtures.exports import exported, module, requests, trained, warm  # noqa: F401
from tests.shared.fixtures.schedules import promoted, schedule, stopping_at  # noqa: F401
