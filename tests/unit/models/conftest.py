"""Two replicas for every test of models."""

from tests.shared import two_cpus  # noqa: F401 - before TensorFlow's devices are used
