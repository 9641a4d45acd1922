"""run.json is read as it was written, or its damage is named."""

import dataclasses
import json

import pytest

from pipeline.base import documents
from pipeline.base.errors import InputError
from pipeline.configs import base
from pipeline.training.state import run_record
from pipeline.training.state.run_record import RunRecord

RECORD = RunRecord(
    dataset_digest="d" * 64,
    order=1,
    update=1,
    augmentation=0,
    config=base.get_config().to_dict(),
    precision={"policy": "float32", "reason": "asked for"},
    total_steps=38,
)
KEYS = (
    "command dataset dataset_digest spans order update augmentation warm_start config_file config "
    "mixture_digests strategy replicas devices precision versions machine jit_compile total_steps "
    "damaged_records parameters started finished steps seconds bad_steps lengthened files digest"
)


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
    with pytest.raises(InputError, match=r"run\.json: received a document without dataset_digest, order"):
        run_record.read(tmp_path / "run.json")


def test_a_key_of_a_later_version_does_no_harm(tmp_path):
    document = dataclasses.asdict(dataclasses.replace(RECORD, config={})) | {"moon": "full"}
    (tmp_path / "run.json").write_text(json.dumps(documents.with_digest(document)))
    assert run_record.read(tmp_path / "run.json").total_steps == 38


def test_a_damaged_record_is_named(tmp_path):
    run_record.write(tmp_path / "run.json", RECORD)
    text = (tmp_path / "run.json").read_text()
    (tmp_path / "run.json").write_text(text.replace('"seed": 0', '"seed": 1'))
    with pytest.raises(InputError, match=r"run\.json: received other content than was written.*delete it"):
        run_record.read(tmp_path / "run.json")


def test_files_are_those_that_the_run_wrote(tmp_path):
    for name in ("golden.tfrecord", "schema.json"):
        (tmp_path / name).write_text(name)
    record = dataclasses.replace(RECORD, files=run_record.digests(tmp_path))
    run_record.check_files(tmp_path, record)
    (tmp_path / "golden.tfrecord").unlink()  # written again
    run_record.check_files(tmp_path, record)
    (tmp_path / "schema.json").write_text("another")
    with pytest.raises(
        InputError, match=r"schema\.json: received SHA-256 .*; expected .*as the training run"
    ):
        run_record.check_files(tmp_path, record)
