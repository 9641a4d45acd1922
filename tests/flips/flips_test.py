"""A slice of `python -m tests.flips`: what the commands read first, without training and without a model."""

import json
import pathlib

import pytest

from pipeline.base import documents
from pipeline.base.errors import InputError
from pipeline.base.files import sha256
from pipeline.configs import base
from pipeline.data.dataset import records
from pipeline.data.dataset.manifest import open_dataset
from pipeline.data.dataset.selection import select
from pipeline.data.integrity import damage
from pipeline.data.statistics import loading
from pipeline.training.state import run_record, workdir
from pipeline.training.state.run_record import RunRecord
from tests.flips.flip import ALLOWED, Flip, Subject, Verdict, flips
from tests.flips.subjects import verified
from tests.pipeline.training.small_run import write_small_dataset


def dataset(folder: pathlib.Path) -> Subject:
    directory = write_small_dataset(folder / "1.0.0").directory
    (directory / "conversion.json").write_text(records.dumps_conversion({"seconds": 1.5}))

    def train(copy: pathlib.Path) -> object:
        opened = open_dataset(copy)
        selections = {split: select(opened, split) for split in opened.manifest.splits}
        for record in damage.sound_selection(selections, budget=1)[1]:
            raise InputError(record.file, received="damage", expected="none", action="")
        return loading.load(opened), {split: each.rows for split, each in selections.items()}

    return Subject(name="dataset", directory=directory, commands={"verify": verified, "train": train})


def export(folder: pathlib.Path) -> Subject:
    folder.mkdir(parents=True)
    for name in ("schema.json", "saved_model.pb"):
        (folder / name).write_text(name)
    files = {path.name: sha256(path) for path in sorted(folder.iterdir())}
    document = {"format": records.FORMAT, "step": 3, "files": files}
    (folder / records.FILE_NAME).write_text(json.dumps(documents.with_digest(document)))
    return Subject(name="export", directory=folder, commands={"evaluate": records.open_export})


def run(folder: pathlib.Path) -> Subject:
    folder.mkdir(parents=True)
    for name in ("golden.tfrecord", "schema.json", "statistics.pb", "evaluation.json"):
        (folder / name).write_text(name)
    record = RunRecord(
        dataset_digest="d" * 64,
        order=1,
        update=1,
        augmentation=0,
        config=base.get_config().to_dict(),
        precision={"policy": "float32"},
        total_steps=20,
        files=run_record.digests(folder, "evaluation.json"),
    )
    run_record.write(folder / "run.json", record)
    for step in (10, 20):
        workdir.append_history(folder / "history.jsonl", {"step": step, "loss": 1 / step})

    def train(copy: pathlib.Path) -> object:
        found = run_record.read(copy / "run.json")
        run_record.check_files(copy, found)
        workdir.keep_history_up_to(copy / "history.jsonl", 20)
        return found, workdir.read_history(copy / "history.jsonl")

    return Subject(name="run", directory=folder, commands={"train": train})


@pytest.mark.slow
@pytest.mark.parametrize("make", [dataset, export, run])
def test_no_flipped_bit_changes_a_result_in_silence(tmp_path, make):
    found = list(flips(make(tmp_path / "whole"), tmp_path / "scratch", count=40, seed=0))
    assert [flip for flip in found if flip.verdict not in ALLOWED] == []
    assert sum(flip.verdict is Verdict.NAMED for flip in found) >= 35


def test_a_flip_that_a_command_warns_of_is_named(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "newest").write_text("5")

    def read(copy: pathlib.Path) -> int:
        if (copy / "newest").read_bytes() != b"5":
            print("warning    newest is damaged, so the older one is taken")
        return 5

    subject = Subject(name="data", directory=tmp_path / "data", commands={"read": read})
    (told,) = flips(subject, tmp_path / "scratch", count=1, seed=0)
    assert (told.verdict, told.command) == (Verdict.NAMED, "read")


@pytest.mark.parametrize(("gives_way", "verdict"), [(("read",), Verdict.NAMED), ((), Verdict.WRONG)])
def test_an_older_result_counts_only_where_it_is_told_and_allowed(tmp_path, gives_way, verdict):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "newest").write_text("5")

    def read(copy: pathlib.Path) -> int:
        if (copy / "newest").read_bytes() == b"5":
            return 5
        print("warning    newest is damaged, so the older one is taken")
        return 4

    directory, commands = tmp_path / "data", {"read": read}
    subject = Subject(name="data", directory=directory, commands=commands, gives_way=gives_way)
    (told,) = flips(subject, tmp_path / "scratch", count=1, seed=0)
    assert told.verdict is verdict


def test_a_flip_that_nobody_notices_is_wrong(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "numbers.json").write_text("[100, 200]")
    subject = Subject(
        name="data",
        directory=tmp_path / "data",
        commands={"sum": lambda copy: sum(json.loads((copy / "numbers.json").read_text()))},
    )
    told: list[Flip] = list(flips(subject, tmp_path / "scratch", count=40, seed=0))
    assert {flip.verdict for flip in told} >= {Verdict.WRONG, Verdict.TRACEBACK}
