"""run.json is read as it was written, or its damage is named."""

import copy
import dataclasses
import json

import pytest

from pipeline.base import documents
from pipeline.base.cli import config
from pipeline.base.errors import InputError
from pipeline.base.values import value_at
from pipeline.configs import base
from pipeline.training.experiment import config as config_lib
from pipeline.training.state import continuation, run_record, start
from pipeline.training.state.run_record import RunRecord
from pipeline.training.state.workdir import Workdir

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
    "command dataset dataset_digest spans order update augmentation warm_start init config_file config "
    "code callbacks mixture_digests strategy replicas devices precision versions machine jit_compile "
    "total_steps damaged_records parameters started finished steps seconds bad_steps lengthened files digest"
)


def test_is_read_as_it_was_written(tmp_path):
    run_record.write(tmp_path / "run.json", dataclasses.replace(RECORD, steps=7, config={"seed": 1}))
    assert list(json.loads((tmp_path / "run.json").read_text())) == KEYS.split()
    read = run_record.read(tmp_path / "run.json")
    assert (read.steps, read.config, read.precision) == (7, {"seed": 1}, RECORD.precision)


def test_no_file_is_no_record(tmp_path):
    assert run_record.read(tmp_path / "run.json") is None


@pytest.mark.parametrize("content", ["{}", '{"steps": 3}'])
def test_a_document_that_is_no_record_is_refused(content, tmp_path):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(InputError, match=r"run\.json: received a document without dataset_digest, order"):
        run_record.read(tmp_path / "run.json")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("precision", []),
        ("versions", []),
        ("config", [1]),
        ("warm_start", "text"),
        ("dataset_digest", 3),
        ("seconds", "long"),
        ("seconds", float("nan")),
        ("steps", "7"),
        ("steps", True),
        ("spans", [5]),
        ("bad_steps", [{"step": 1.5}]),
    ],
)
def test_a_value_of_another_type_is_named_though_the_digest_is_right(field, value, tmp_path):
    document = dataclasses.asdict(RECORD) | {field: value}
    (tmp_path / "run.json").write_text(json.dumps(documents.with_digest(document)))
    with pytest.raises(InputError, match=rf"run\.json: received {field}: .*; expected what the training run"):
        run_record.read(tmp_path / "run.json")


def test_a_key_of_a_later_version_does_no_harm(tmp_path):
    document = dataclasses.asdict(dataclasses.replace(RECORD, config={})) | {"moon": "full"}
    (tmp_path / "run.json").write_text(json.dumps(documents.with_digest(document)))
    assert run_record.read(tmp_path / "run.json").total_steps == 38


def test_an_older_record_has_the_keys_of_today(tmp_path):
    older = copy.deepcopy(RECORD.config)
    for name in ("init", "loss", "observers"):
        del older[name]
    for section, name in (("optimizer", "matrices"), ("optimizer", "rates"), ("train", "frozen")):
        del older[section][name]
    older["optimizer"] |= {"warmup_part": 0.1, "warmup_steps": 100}  # the part counted
    run_record.write(tmp_path / "run.json", dataclasses.replace(RECORD, config=older))
    read = run_record.read(tmp_path / "run.json").config
    today = config_lib.as_json(RECORD.config)
    assert read == today | {"optimizer": today["optimizer"] | {"warmup_part": 0.1, "warmup_steps": 0}}


def test_the_config_that_a_run_begins_with_is_known_when_that_run_is_gone(tmp_path):
    workdir, gone = Workdir(tmp_path / "run"), tmp_path / "champion"
    assert start.first_config(workdir, gone) is None
    workdir.start.path.mkdir(parents=True)
    run_record.write(workdir.start.run, dataclasses.replace(RECORD, config={"model": {"frequencies": 0}}))
    assert start.first_config(workdir, gone) == {"model": {"frequencies": 0}}


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


@pytest.mark.parametrize("content", ['{"records": 5}', '{"rows": 2}', None])
def test_the_list_of_records_left_out_is_needed_as_the_run_wrote_it(tmp_path, content):
    path = tmp_path / "damaged.json"
    path.write_text('{"rows": 1, "records": []}')
    record = dataclasses.replace(RECORD, files=run_record.digests(tmp_path))
    run_record.require_left_out(tmp_path, record)
    run_record.require_left_out(tmp_path / "other", RECORD)  # a run without damage has no such file
    if content is None:
        path.unlink()
        run_record.check_files(tmp_path, record)  # which is enough for an export
    else:
        path.write_text(content)
        with pytest.raises(InputError, match=r"damaged\.json: received SHA-256") as raised:
            run_record.check_files(tmp_path, record)
        assert "delete" not in raised.value.action
    with pytest.raises(InputError, match=r"damaged\.json: received (SHA-256|no such file).*empty --workdir"):
        run_record.require_left_out(tmp_path, record)


# A working directory is guarded against another run, and a finished run against another config.


def changed(path: str) -> RunRecord:
    """The same record with another value at `path` of its config."""
    config = copy.deepcopy(RECORD.config)
    holder, _, name = path.rpartition(".")
    section = value_at(config, holder) if holder else config
    section[name] = "other"
    return dataclasses.replace(RECORD, config=config)


def test_same_settings_may_continue():
    continuation.require_same(RECORD, copy.deepcopy(RECORD))


# Written out: a key that fell out of BOUND would take its own test with it.
BOUND = [
    "model",
    "init.without",
    "image_size",
    "seed",
    "global_batch",
    "image_dtype",
    "shuffle",
    "train.split",
    "train.micro_batches",
    "train.standardise_labels",
    "train.label_smoothing",
    "train.class_weights",
    "train.example_weights",
    "train.frozen",
    "train.weight",
    "loss",
    "mixture",
    "augmentation.flip",
    "optimizer.name",
    "optimizer.learning_rate",
    "optimizer.schedule",
    "optimizer.rates",
    "callbacks",
]
SECTIONS = ("model", "loss", "augmentation", "optimizer")
KEYS_OF_CONFIG = {
    name
    for name, _ in config.config_leaves(base.get_config().to_dict())
    if name not in BOUND and not name.startswith(SECTIONS)
}


@pytest.mark.parametrize("path", sorted(KEYS_OF_CONFIG))
def test_what_neither_weights_nor_order_depend_on_may_change(path):
    continuation.require_same(RECORD, changed(path))


@pytest.mark.parametrize("path", BOUND)
def test_what_weights_or_order_depend_on_may_not(path):
    with pytest.raises(InputError, match=rf"--workdir, --config.{path}: received other; expected"):
        continuation.require_same(RECORD, changed(path))


@pytest.mark.parametrize("path", sorted(f"augmentation.{name}" for name in base.get_config().augmentation))
def test_every_key_of_an_augmentation_is_bound(path):
    with pytest.raises(InputError, match=rf"--workdir, --config.{path}: received other; expected"):
        continuation.require_same(RECORD, changed(path))


def test_another_dataset_of_a_mixture_may_not():
    """It may have been published anew under the same name."""
    one, other = (dataclasses.replace(RECORD, mixture_digests=(name,)) for name in ("aaaa", "bbbb"))
    with pytest.raises(InputError, match=r"dataset of --config.mixture: received bbbb; expected aaaa"):
        continuation.require_same(one, other)


def test_another_dataset_or_precision_may_not():
    with pytest.raises(InputError, match=r"--workdir, dataset: received ffff"):
        continuation.require_same(RECORD, dataclasses.replace(RECORD, dataset_digest="ffff"))
    with pytest.raises(InputError, match=r"--precision: received mixed_float16; expected float32"):
        continuation.require_same(
            RECORD, dataclasses.replace(RECORD, precision={"policy": "mixed_float16", "reason": ""})
        )


@pytest.mark.parametrize(("field", "thing"), [("order", "order of rows"), ("update", "update of weights")])
def test_a_run_that_began_with_another_version_may_not(field, thing):
    began = dataclasses.replace(RECORD, **{field: 2})
    with pytest.raises(InputError, match=rf"{thing}: received version 1; expected 2, in which"):
        continuation.require_same(began, RECORD)


def test_a_run_on_pictures_that_are_augmented_otherwise_now_may_not():
    before, now = (dataclasses.replace(RECORD, augmentation=version) for version in (1, 2))
    with pytest.raises(InputError, match=r"augmentation of images: received version 2; expected 1, in which"):
        continuation.require_same(before, now)
    flips = copy.deepcopy(RECORD.config) | {"augmentation": {"flip": True}}
    with pytest.raises(
        InputError, match=r"--config\.augmentation\.flip"
    ):  # a setting is named before its version
        continuation.require_same(before, dataclasses.replace(now, config=flips))


FINISHED = dataclasses.replace(RECORD, finished=True, steps=38)


@pytest.mark.parametrize("path", ["evaluation.final_split", "train.log_every_steps"])
def test_a_finished_run_does_not_seem_to_obey_another_config(path):
    with pytest.raises(InputError, match=rf"--config.{path}: received other; expected .* which is finished"):
        continuation.require_same(FINISHED, changed(path))


def test_a_finished_run_may_be_made_longer_but_not_shorter():
    longer = dataclasses.replace(changed("train.epochs"), total_steps=50)
    continuation.require_same(FINISHED, longer)
    continuation.require_enough_steps(38, 50)
    with pytest.raises(
        InputError, match="received 30 steps; expected at least 38, which the run in --workdir"
    ):
        continuation.require_enough_steps(38, 30)


def test_what_a_callback_ended_is_not_made_longer():
    ended = dataclasses.replace(FINISHED, steps=25)
    longer = dataclasses.replace(RECORD, total_steps=50)
    with pytest.raises(
        InputError,
        match=r"expected 38 steps: train\.patience or a callback ended that run at step 25",
    ):
        continuation.require_same(ended, longer)


def test_a_key_that_a_section_did_not_have_is_a_difference():
    config = copy.deepcopy(RECORD.config)
    del config["optimizer"]["momentum"]
    with pytest.raises(InputError, match=r"--workdir, --config\.optimizer\.momentum: received"):
        continuation.require_same(dataclasses.replace(RECORD, config=config), RECORD)


def test_an_empty_value_is_seen_in_the_message():
    began, now = copy.deepcopy(RECORD.config), copy.deepcopy(RECORD.config)
    began["train"]["example_weights"] = "age"
    began, now = (dataclasses.replace(RECORD, config=config) for config in (began, now))
    with pytest.raises(InputError, match="example_weights: received ''; expected age, as in the run"):
        continuation.require_same(began, now)
    with pytest.raises(InputError, match="example_weights: received age; expected '', as in the run"):
        continuation.require_same(now, began)
