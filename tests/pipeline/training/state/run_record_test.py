"""run.json guards a working directory against another run."""

import copy
import dataclasses
import json

import pytest

from pipeline.configs import base
from pipeline.data.commands import config_keys
from pipeline.data.errors import InputError
from pipeline.training.state import run_record
from pipeline.training.state.run_record import RunRecord

RECORD = RunRecord(
    dataset_digest="d" * 64,
    order=2,
    config=base.get_config().to_dict(),
    precision={"policy": "float32", "reason": "asked for"},
    total_steps=38,
)
# What commit 56ca674 wrote, in its order.
KEYS = (
    "command dataset dataset_digest order config_file config strategy replicas devices precision versions "
    "machine jit_compile total_steps damaged_records parameters started finished steps seconds"
)


def changed(path: str) -> RunRecord:
    """The same record with another value at `path` of its config."""
    config = copy.deepcopy(RECORD.config)
    holder, _, name = path.rpartition(".")
    section = run_record.field(config, holder) if holder else config
    section[name] = "other"
    return dataclasses.replace(RECORD, config=config)


def test_is_read_as_it_was_written(tmp_path):
    run_record.write(tmp_path / "run.json", dataclasses.replace(RECORD, steps=7, config={"seed": 1}))
    assert list(json.loads((tmp_path / "run.json").read_text())) == KEYS.split()
    read = run_record.read(tmp_path / "run.json")
    assert (read.steps, read.config, read.precision) == (7, {"seed": 1}, RECORD.precision)


def test_no_file_is_no_record(tmp_path):
    assert run_record.read(tmp_path / "run.json") is None


@pytest.mark.parametrize("content", ["{}", "[]", '{"steps": 3}'])
def test_a_document_that_is_no_record_is_refused(content, tmp_path):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(InputError, match=r"run\.json: received a document without dataset_digest, config"):
        run_record.read(tmp_path / "run.json")


def test_a_key_of_a_later_version_does_no_harm(tmp_path):
    document = dataclasses.asdict(dataclasses.replace(RECORD, config={})) | {"moon": "full"}
    (tmp_path / "run.json").write_text(json.dumps(document))
    assert run_record.read(tmp_path / "run.json").total_steps == 38


def test_same_settings_may_continue():
    run_record.require_same(RECORD, copy.deepcopy(RECORD))


# Written out: a key that fell out of BOUND would take its own test with it.
BOUND = [
    "model",
    "image_size",
    "seed",
    "global_batch",
    "image_dtype",
    "shuffle",
    "train.split",
    "train.weight",
    "mixture",
    "optimizer.name",
]
KEYS_OF_CONFIG = {name for name, _ in config_keys.leaves(base.get_config())} - {"model.name"}


@pytest.mark.parametrize("path", sorted(KEYS_OF_CONFIG - {*BOUND}))
def test_what_neither_weights_nor_order_depend_on_may_change(path):
    run_record.require_same(RECORD, changed(path))


@pytest.mark.parametrize("path", BOUND)
def test_what_weights_or_order_depend_on_may_not(path):
    with pytest.raises(InputError, match=rf"--workdir, --config.{path}: received other; expected"):
        run_record.require_same(RECORD, changed(path))


def test_another_dataset_or_precision_may_not():
    with pytest.raises(InputError, match=r"--workdir, dataset: received ffff"):
        run_record.require_same(RECORD, dataclasses.replace(RECORD, dataset_digest="ffff"))
    with pytest.raises(InputError, match=r"--precision: received mixed_float16; expected float32"):
        run_record.require_same(
            RECORD, dataclasses.replace(RECORD, precision={"policy": "mixed_float16", "reason": ""})
        )


@pytest.mark.parametrize(("before", "named"), [(0, "an older one"), (1, "1")])
def test_a_run_that_began_in_another_order_of_rows_may_not(before, named):
    began = dataclasses.replace(RECORD, order=before)
    with pytest.raises(InputError, match=rf"order of rows: received version 2; expected {named}, in which"):
        run_record.require_same(began, RECORD)
