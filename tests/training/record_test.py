"""run.json says what was run, and guards a working directory against another run."""

import copy
import json

import pytest

from pipeline.data.errors import InputError
from pipeline.training import record
from pipeline.training import strategy as strategy_lib
from pipeline.training.precision import Precision


@pytest.fixture
def described(request_for, tmp_path) -> dict:
    precision = Precision(policy="float32", reason="asked for")
    return record.describe(request_for(tmp_path), strategy_lib.create("mirrored"), precision)


def test_names_what_was_run_on_what(described, dataset):
    assert described["dataset_digest"] == dataset.manifest.digest
    assert described["strategy"] == "mirrored"
    assert described["replicas"] == len(described["devices"]) == 2
    assert described["config"]["model"]["hidden"] == [8]
    assert described["versions"]["keras"].startswith("3.")
    assert described["machine"]["cores"] >= 1
    assert json.loads(json.dumps(described)) == described


def test_same_settings_may_continue(described):
    record.require_same(described, copy.deepcopy(described))


def changed(described: dict, path: str) -> dict:
    """The same record with another value at `path` of its config."""
    now = copy.deepcopy(described)
    holder, _, name = path.rpartition(".")
    section = record.field(now["config"], holder) if holder else now["config"]
    section[name] = "other"
    return now


@pytest.mark.parametrize("path", ["train.epochs", "optimizer.learning_rate", "callbacks", "evaluation.split"])
def test_what_neither_weights_nor_order_depend_on_may_change(described, path):
    record.require_same(described, changed(described, path))


@pytest.mark.parametrize("path", record.BOUND)
def test_what_weights_or_order_depend_on_may_not(described, path):
    with pytest.raises(InputError, match=rf"--workdir, --config.{path}: received other; expected"):
        record.require_same(described, changed(described, path))


def test_another_dataset_or_precision_may_not(described):
    with pytest.raises(InputError, match=r"--workdir, dataset: received ffff"):
        record.require_same(described, described | {"dataset_digest": "ffff"})
    with pytest.raises(InputError, match=r"--precision: received mixed_float16; expected float32"):
        record.require_same(described, described | {"precision": {"policy": "mixed_float16"}})


@pytest.mark.parametrize(("before", "named"), [(0, "an older one"), (1, "1")])
def test_a_run_that_began_in_another_order_of_rows_may_not(described, before, named):
    began = {**described, "order": before}
    with pytest.raises(InputError, match=rf"order of rows: received version \d+; expected {named}, in which"):
        record.require_same(began, described)


def test_functions_in_a_config_do_not_break_the_record(config):
    config.callbacks = ({"class_name": "LambdaCallback", "config": {"on_epoch_end": print}},)
    (callback,) = record.plain(config)["callbacks"]
    assert callback["config"]["on_epoch_end"] == repr(print)
