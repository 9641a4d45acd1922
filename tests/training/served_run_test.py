"""A run whose batches a tf.data service prepares ends like one that prepares them itself."""

from pipeline.data import servers
from pipeline.training import run


def test_ends_the_same(request_for, tmp_path, config):
    config.train.steps = 10
    held = [servers.start(), servers.start()]
    addresses = tuple(server.address for server in held)
    served = run.train(request_for(tmp_path / "served", strategy="mirrored", data_service=addresses))
    again = run.train(request_for(tmp_path / "mirrored", strategy="mirrored"))
    assert served == again
