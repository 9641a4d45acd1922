"""A run whose batches tf.data services prepare ends like one that prepares them itself."""

import pytest

from pipeline.training.run import run
from tests.shared.data_servers import serving


@pytest.mark.slow
def test_ends_the_same(request_for, tmp_path, config, warm_python):
    config.train.steps = 10
    alone = run.train(request_for(tmp_path / "alone", strategy="mirrored"))
    with serving(2, warm_python) as addresses:
        served = run.train(
            request_for(tmp_path / "served", strategy="mirrored", data_service=tuple(addresses))
        )
    assert served == alone
