"""Two real training steps on this machine's processor, in a process of their own: it gives their memory back.

  python -m pipeline.forecast.rehearsal FOLDER

FOLDER has the request, `request.json`: the values of a config, the file that they are from, and the names of
the dataset. The answer is written beside it: the verdict, whether it is good, and a finding.
"""

import dataclasses
import json
import pathlib
import signal
import sys
import tempfile
from collections.abc import Sequence

from pipeline.base import (
    tensorflow_start,  # noqa: F401 - before TensorFlow
)

# isort: split
import numpy as np
import tensorflow as tf

from pipeline.base import files
from pipeline.base.errors import InputError
from pipeline.base.values import Values
from pipeline.data.dataset import window
from pipeline.data.dataset.manifest import Dataset
from pipeline.forecast import compiler
from pipeline.forecast.lowering import Weighed
from pipeline.forecast.stages import Stage
from pipeline.report import formats
from pipeline.report.section import Finding
from pipeline.training.engine import strategy
from pipeline.training.experiment import config as config_lib
from pipeline.training.experiment import model_code
from pipeline.training.experiment.config import Experiment
from pipeline.training.experiment.model import naming_layer
from pipeline.training.launch import child
from pipeline.training.parity import subject as subject_lib
from pipeline.training.parity import updates

NAME = "two steps"
_STEPS, _REPLICAS = 2, 2
_EXAMPLES = 16  # of a step: a processor would take long for the batch of a slice
_GRAPH_BYTES = 250e6  # what their graph takes in any case
_REQUEST, _ANSWER, _LOG = "request.json", "answer.json", "log"
_MOST_LETTERS = 300  # of an error's message
_LEFT_OUT = "Run this on a machine with more memory, or leave the two steps out with --norehearse."


def rehearse(
    values: Values, datasets: Sequence[str], *, config_file: str, weighed: Weighed, free_bytes: int
) -> Stage:
    """Two steps of an experiment on two replicas of this processor, in float32 and without dropout.

    Where they would take more memory than is free, no step runs: the system would kill the process.

    Args:
      values: those of a config, as `config_lib.parse` takes them, which came from `config_file`.
      datasets: what `window.open_window` opens.
    """
    if (wanted := needed_bytes(weighed)) > free_bytes:
        free = formats.size(free_bytes)
        text = f"They would take about {formats.size(wanted)} here, and {free} are free."
        return _left_out("too little memory", text)
    with tempfile.TemporaryDirectory(prefix="penstock-preflight-") as name:
        folder = pathlib.Path(name)
        request = {"config": config_lib.as_json(values), "file": config_file, "datasets": list(datasets)}
        files.write_json(folder / _REQUEST, request)
        code = child.run([__name__, name], log=folder / _LOG)
        if code == 0:
            answer = json.loads((folder / _ANSWER).read_bytes())
            return Stage(**{**answer, "findings": tuple(Finding(**each) for each in answer["findings"])})
        said = compiler.last_words((folder / _LOG).read_text(errors="replace"))
        why = child.why_failed(code, log=folder / _LOG) if code < 0 else f"exit code {code}: {said}"
    if code == -signal.SIGKILL:
        return _left_out("the system ended them", "It does so where memory is short.")
    return Stage(name=NAME, verdict=f"their process had {why}", is_good=False)


def _left_out(why: str, text: str) -> Stage:
    finding = Finding(text=text, advice=_LEFT_OUT)
    return Stage(name=NAME, verdict=f"left out: {why}", is_good=None, findings=(finding,))


def needed_bytes(weighed: Weighed) -> float:
    """Memory that the two steps take, about: what two replicas keep, what the update of the largest layer
    needs besides, and half of all outputs: the other half is not kept for the backward pass.

    Measured peaks were 0.7 to 1.3 times this: BERT-tiny, DistilBERT, GPT-2, Qwen2.5, ViT-S/16, Whisper base,
    and a table of a million rows with AdamW and with SGD; 1.6 for MobileNetV2, whose peak was 1.8 GiB.
    """
    largest = max((each.weights for each in weighed.layers), default=0)
    of_replicas = _REPLICAS * (weighed.kept + weighed.gradients + largest)
    return _GRAPH_BYTES + of_replicas + weighed.layer_outputs(_EXAMPLES) / 2


def two_steps(experiment: Experiment, dataset: Dataset, replicas: tf.distribute.Strategy) -> Stage:
    """Runs them in this process."""
    smaller = dataclasses.replace(experiment.data, global_batch=_EXAMPLES)
    subject = subject_lib.of_experiment(dataclasses.replace(experiment, data=smaller), dataset)
    batches = subject.batches(_STEPS)
    try:
        with naming_layer(model_code.locate(experiment.model)):
            model, run = updates.steps(subject, batches, strategy=replicas, micro_batches=1)
            run()
    except InputError as error:
        return Stage(name=NAME, verdict=str(error), is_good=False)
    except Exception as error:  # a step may end with any error of TensorFlow
        said = " ".join(str(error).split())[:_MOST_LETTERS]
        return Stage(name=NAME, verdict=f"{type(error).__name__}: {said}", is_good=False)
    broken = [each.path for each in model.trainable_variables if not np.isfinite(each).all()]
    if broken:
        finding = Finding(
            text=f"After {_STEPS} steps {broken[0]} is no finite number.",
            advice="Lower the learning rate, or look for extreme values; pipeline.train names the rows.",
        )
        return Stage(name=NAME, verdict="a weight is not finite", is_good=False, findings=(finding,))
    return Stage(
        name=NAME, verdict=f"{_STEPS} steps of {_EXAMPLES} examples on two replicas of this processor"
    )


def _answer(folder: pathlib.Path) -> None:
    request = json.loads((folder / _REQUEST).read_bytes())
    replicas = strategy.create("mirrored", logical_devices=_REPLICAS)  # first: it splits the processor
    experiment = config_lib.parse(request["config"], config_file=request["file"])
    found = two_steps(experiment, window.open_window(request["datasets"]), replicas)
    files.write_json(folder / _ANSWER, dataclasses.asdict(found))


if __name__ == "__main__":
    _answer(pathlib.Path(sys.argv[1]))
