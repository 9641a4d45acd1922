"""The record of a request says what is run on what."""

import json

from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.engine.precision import Precision
from pipeline.training.run import request
from tests.shared.parsed import parsed


def test_names_what_is_run_on_what(request_for, dataset, tmp_path):
    described = request.describe(
        request_for(tmp_path),
        strategy_lib.create("mirrored"),
        Precision(policy="float32", reason="asked for"),
        jit_compile=False,
        total_steps=38,
        damaged_records=2,
    )
    assert described.dataset_digest == dataset.manifest.digest
    assert described.strategy == "mirrored"
    assert described.replicas == len(described.devices) == 2
    assert described.config["model"]["hidden"] == [8]
    assert described.versions["keras"].startswith("3.")
    assert described.machine["cores"] >= 1
    assert (described.total_steps, described.damaged_records, described.finished) == (38, 2, False)


def test_functions_in_a_config_do_not_break_the_record(config):
    config.callbacks = ({"class_name": "LambdaCallback", "config": {"on_epoch_end": print}},)
    (callback,) = parsed(config).given["callbacks"]
    assert callback["config"]["on_epoch_end"] == repr(print)
    assert json.dumps(callback)


def test_a_config_is_recorded_as_json_has_it(config):
    assert config.model.hidden == (8,)
    assert parsed(config).given["model"]["hidden"] == [8]


def test_a_package_that_is_not_installed_has_no_version():
    found = request.versions(("keras", "no-such-package"))
    assert found["keras"].startswith("3.")
    assert "no-such-package" not in found
