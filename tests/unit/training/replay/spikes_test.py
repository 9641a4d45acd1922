"""A step whose examples have wrong labels is found in the loss's means over ten steps, with its examples."""

import math
import pathlib
import shutil

import pytest
from ml_collections import ConfigDict

from pipeline.base import documents
from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import select
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.schema.feature_types import Label, Numeric
from pipeline.data.schema.schema import Schema
from pipeline.report import terminal
from pipeline.training.replay import render
from pipeline.training.replay.replay import Replay
from pipeline.training.replay.stream import TrainingStream
from pipeline.training.run import run
from pipeline.training.state import workdir as workdir_lib
from tests.shared.parsed import parsed
from tests.shared.small_run import SCHEMA, rows, small_config
from tests.shared.tiny_dataset import describe, write_dataset
from tests.unit.training.replay.changed import change

SPIKE = 74  # the step


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A run of 100 steps; in one of them every label is wrong."""
    folder, examples, config = tmp_path_factory.mktemp("spiked"), rows(1_600, seed=0), small_config()
    config.train.epochs = 1.0
    selection = select(write_dataset(folder / "clean", SCHEMA, {"train": examples}), "train")
    preprocess = Preprocess(SCHEMA, describe(SCHEMA, examples))
    stream = TrainingStream(args=parsed(config).data, data=selection, preprocess=preprocess)
    for record in stream.records(SPIKE):
        examples[record.number]["positive"] ^= 1
    dataset = write_dataset(folder / "spiked", SCHEMA, {"train": examples})
    return train(config, dataset, folder / "run")


def train(config: ConfigDict, dataset: Dataset, workdir: pathlib.Path) -> pathlib.Path:
    request = run.Request(
        experiment=parsed(config),
        dataset=dataset,
        workdir=workdir,
        precision="float32",
        strategy="one_device",
    )
    run.train(request)
    return workdir


@pytest.mark.slow
def test_the_step_is_found_with_its_examples(workdir):
    spikes = Replay(workdir).spikes(examples=16)
    (spike,) = spikes.found
    assert (spike.window.first, spike.window.last) == (72, 78)  # log points: each checkpoint is one, too
    (step,) = spike.steps
    assert step.replayed.step == SPIKE
    assert {example.record.position for example in step.replayed.examples} == set(
        range(16 * SPIKE, 16 * SPIKE + 16)
    )
    assert step.replayed.loss > 4 * step.usual
    assert render.verdict(spike).startswith("Of the steps 70 to 77 these stand out, under the weights of the")
    told = render.spikes_json(spikes, SCHEMA)["spikes"][0]
    assert (told["first_step"], told["last_step"], told["steps"][0]["step"]) == (72, 77, SPIKE)
    assert f"Step {SPIKE}: loss" in terminal.render(render.spikes_sections(spikes, SCHEMA, run="run"))


@pytest.mark.slow
def test_a_jump_that_the_data_do_not_explain_is_told_and_none_where_a_run_goes_on(workdir, tmp_path):
    copy = shutil.copytree(workdir, tmp_path / "run")
    points = workdir_lib.read_history(copy / "history.jsonl")
    points[8]["loss"] = 9.0
    documents.replace_lines(copy / "history.jsonl", points)
    change(copy, finished=False, total_steps=110)
    unexplained, explained = Replay(copy).spikes(examples=1).found
    assert (unexplained.window.last, unexplained.steps) == (points[8]["step"], ())
    assert render.verdict(unexplained).endswith("the data do not explain the jump")
    assert explained.steps[0].replayed.step == SPIKE


@pytest.mark.slow
def test_the_step_is_found_whose_loss_was_not_finite(tmp_path):
    """The square of a label is infinite in float32, so the run ends, and its loss is never logged."""
    schema = Schema(name="heights", features=(Numeric(name="x"), Label(name="y", task="regression")))
    examples = [{"x": float(number), "y": float(number % 7)} for number in range(800)]
    examples[157]["y"] = 1e30
    config = small_config()
    config.train.epochs = 1.0
    config.train.standardise_labels = False  # its spread would be beyond float32, and so every loss
    with pytest.raises(InputError, match=r"step 31: .*, record 157 .*replay --step=31"):
        train(config, write_dataset(tmp_path / "data", schema, {"train": examples}), tmp_path / "run")
    spikes = Replay(tmp_path / "run").spikes(examples=1)
    _, jump, *_ = render.spikes_sections(spikes, schema, run="run")
    assert "no finite loss was logged before the run ended" in jump.title
    (spike,) = spikes.found
    (worst,) = spike.steps[0].replayed.examples
    assert (spike.steps[0].replayed.step, worst.record.number, worst.loss) == (31, 157, math.inf)
