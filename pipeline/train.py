r"""Trains a model on a dataset, evaluates it, and writes a report.

  python -m pipeline.train --config=pipeline/configs/digits_resnet.py --dataset=data/digits/1.0.0 \
      --workdir=runs/digits

For data of your own start from pipeline/configs/tabular.py (numbers, categories, text) or
pipeline/configs/image_classification.py. Any value of the config can be overridden:
--config.train.epochs=3 --config.optimizer.name=sgd

Two replicas on one CPU, as a rehearsal: --strategy=mirrored --logical_devices=2
All GPUs of a machine: --strategy=mirrored. Two processes of this machine: --workers=2
Several machines: a process on each, with TF_CONFIG set.

Several settings, three seeds each: --sweep='config.optimizer.learning_rate=1e-3,3e-3;config.seed=0,1,2'
A search by Optuna: --sweep='config.optimizer.learning_rate=log(1e-4..1e-2);config.model.dropout=0..0.5'
The ranges that the config file proposes: --sweep=search

After an interruption, the same command continues from the last checkpoint. To watch it: tensorboard
--logdir=WORKDIR/summaries
"""

if __name__ == "__main__":  # Ctrl-C may come while the imports below run
    from pipeline.base.cli import signals

    signals.handle_signals()

import functools
import pathlib
import shlex
import sys
import time
from collections.abc import Sequence

from absl import flags, logging

from pipeline.base import redaction
from pipeline.base.cli import config
from pipeline.base.cli import flags as flags_lib
from pipeline.base.cli.command import Command
from pipeline.base.cli.run import run_command
from pipeline.base.errors import InputError
from pipeline.configs import base
from pipeline.data.dataset import selection, window
from pipeline.data.dataset.manifest import Dataset
from pipeline.report import terminal
from pipeline.training.experiment import config as config_lib
from pipeline.training.experiment import defaults, evaluation_splits
from pipeline.training.experiment.config import RateScaling
from pipeline.training.launch import grid, search, space, sweep, workers
from pipeline.training.state import start as start_lib
from pipeline.training.state.workdir import Workdir

_CONFIG = config.define_config(
    "FILE: the experiment, one of pipeline/configs or your own. --config.KEY=VALUE overrides it."
)
_DATASET = flags.DEFINE_multi_string(
    "dataset",
    None,
    "DIRECTORY: the dataset, as beam_jobs.convert wrote it. Several, or a glob in quotes, are read as one.",
)
_WORKDIR = flags.DEFINE_string(
    "workdir", None, "DIRECTORY: where checkpoints, metrics and the report go. A run that is there continues."
)
_WARM_START = flags.DEFINE_string(
    "warm_start",
    None,
    "DIRECTORY: the --workdir of a finished run. Training begins with its weights, and preprocesses with its "
    "statistics and vocabularies.",
)
_SWEEP = flags.DEFINE_string(
    "sweep",
    "",
    "config.KEY=VALUE,…;…: a run for each combination of values, in directories of --workdir, and a table of "
    "their results, the best validation first. Over config.seed it gives mean and deviation. With a range "
    "such as config.KEY=0..0.5 or log(1e-4..1e-2), Optuna searches. --sweep=search takes the ranges of the "
    "config file.",
)
_TRIALS = flags.DEFINE_integer(
    "trials", 0, "Trials of a search in all. 0 means 30 if --sweep has a range.", lower_bound=0
)
_STRATEGY = flags.DEFINE_enum(
    "strategy",
    "auto",
    ["auto", "one_device", "mirrored", "multi_worker", "tpu"],
    "The tf.distribute strategy. auto takes every device that there is.",
)
_LOGICAL_DEVICES = flags.DEFINE_integer(
    "logical_devices",
    1,
    "Parts to split the CPU into, to try several replicas on one machine.",
    lower_bound=1,
)
_WORKERS = flags.DEFINE_integer(
    "workers",
    1,
    "How many processes of this machine train together, to try training on several machines.",
    lower_bound=1,
)
_LR_SCALING = flags.DEFINE_enum(
    "lr_scaling",
    config_lib.NONE,
    [config_lib.NONE, config_lib.LINEAR],
    "linear: the learning rate is meant for the config file's global batch, and grows with "
    "--config.global_batch. none: the learning rate stays as it is.",
)
_PRECISION = flags.DEFINE_enum(
    "precision",
    "auto",
    ["auto", "float32", "mixed_bfloat16", "mixed_float16"],
    "Number format to compute in. auto takes what the hardware computes natively, and says why.",
)
_DETERMINISTIC = flags.DEFINE_boolean(
    "deterministic", False, "The same command gives the same weights, bit for bit. Slower on a GPU."
)
_MAX_CORRUPT_RECORDS = flags.DEFINE_integer(
    "max_corrupt_records",
    0,
    "How many damaged records may be left out, in all splits together. With 0 the first one ends the run.",
    lower_bound=0,
)
_DATA_SERVICE = flags.DEFINE_list(
    "data_service", [], "grpc://HOST:PORT,…: every pipeline.data_service that prepares batches."
)
_PROFILE_STEPS = flags.DEFINE_string(
    "profile_steps",
    "",
    "FIRST:END: records these steps, one by one, in WORKDIR/trace for xprof. The first step is 0.",
)
_FEED_HEADSPACE = flags.DEFINE_integer(
    "feed_headspace",
    0,
    "STEPS: trains and writes nothing. Runs this many steps on the run's own input, then as many on batches "
    "kept in memory, and says how much faster a better input could make training at most.",
    lower_bound=0,
)
_BASELINE = flags.DEFINE_boolean(
    "baseline",
    True,
    "For a table or texts: also fits simple models by scikit-learn, in seconds, on 50,000 rows at most: the "
    "mean or prior, a linear model, gradient boosting. Runs of --sweep and of retraining leave it out.",
)
_JSON = flags.DEFINE_string("json", None, "FILE: also write the final metrics to it, as JSON.")

_SEARCH = "search"  # the value of --sweep that names the ranges of the config file
_SOME_TRIALS = 30

COMMAND = Command(
    name="pipeline.train",
    description=__doc__,
    required=(_CONFIG, _DATASET, _WORKDIR),
    flags={
        "What is trained": (_CONFIG, _DATASET, _WORKDIR, _WARM_START, _LR_SCALING, _SWEEP, _TRIALS),
        "Hardware": (_STRATEGY, _WORKERS, _LOGICAL_DEVICES, _PRECISION, _DETERMINISTIC, _DATA_SERVICE),
        "Damage and results": (_MAX_CORRUPT_RECORDS, _PROFILE_STEPS, _FEED_HEADSPACE, _BASELINE, _JSON),
    },
    config_keys=lambda: config.keys_of(base),
)


def main(argv: Sequence[str]) -> int:
    del argv
    flags_lib.check_local_files({"json": _JSON.value})
    workdir = flags_lib.local_directory("workdir", _WORKDIR.value)
    dataset = window.open_window(_DATASET.value)
    resolved = _resolved(_CONFIG.value, dataset)
    scaling, values = _rate_scaling(_CONFIG.value, dataset), resolved.values
    experiment = config_lib.parse(scaling.scaled(values), config_file=flags.FLAGS["config"].config_filename)
    selection.selected_ranges(dataset, experiment.data.split)
    evaluation_splits.validation_split(experiment.evaluation, dataset)
    evaluation_splits.final_split(experiment.evaluation, dataset)
    if _TRIALS.value and not _SWEEP.value:
        raise InputError(
            f"--trials={_TRIALS.value}",
            received="no --sweep",
            expected="trials of a search",
            action="Name its ranges: --sweep='config.optimizer.learning_rate=log(1e-4..1e-2)'.",
        )
    if _FEED_HEADSPACE.value and _SWEEP.value:
        raise InputError(
            f"--feed_headspace={_FEED_HEADSPACE.value}",
            received=f"--sweep={_SWEEP.value}, too",
            expected="one config, whose input is measured",
            action="Leave one of the two out.",
        )
    if _SWEEP.value:
        _sweep(
            dataset,
            workdir,
            is_validated=bool(evaluation_splits.validation_split(experiment.evaluation, dataset)),
        )
        return 0
    if _WORKERS.value > 1 and not workers.is_member():
        return _launch(experiment.data.global_batch)
    # Imported here: TensorFlow takes seconds, and --help or a wrong flag should not.
    from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow
    from pipeline.training.engine import cluster, trace
    from pipeline.training.report.findings import improving, verdict
    from pipeline.training.report.reporter import summary
    from pipeline.training.run import headspace, run
    from pipeline.training.state import goodput
    from pipeline.training.state.workdir import read_history

    logging.set_verbosity(logging.WARNING)  # otherwise TensorFlow logs each checkpoint's sharding
    request = run.Request(
        experiment=experiment,
        config_file=flags.FLAGS["config"].config_filename,
        dataset=dataset,
        workdir=workdir,
        strategy=_STRATEGY.value,
        logical_devices=_LOGICAL_DEVICES.value,
        precision=_PRECISION.value,
        deterministic=_DETERMINISTIC.value,
        max_corrupt_records=_MAX_CORRUPT_RECORDS.value,
        data_service=tuple(_DATA_SERVICE.value),
        warm_start=_warm_start(),
        defaults=resolved.lines,
        baseline=_BASELINE.value,
        learning_rate=scaling.summary(values),
        profile_steps=trace.parsed(_PROFILE_STEPS.value),
        command=f"python -m pipeline.train {shlex.join(map(_public, sys.argv[1:]))}",
    )
    with cluster.ending_at_once():
        if steps := _FEED_HEADSPACE.value:
            found = headspace.measure(request, steps=steps)
            _write_json(found.to_json())
            print(found.lines())
            return 0
        metrics = run.train(request, began=time.monotonic() - goodput.process_age_s())
    _write_json(metrics)
    export = (f"--workdir={request.workdir}", f"--output={request.workdir / 'export'}")
    found = (*verdict(metrics), *improving(read_history(Workdir(workdir).history)))
    notes = "".join(f"note: {finding}\n" for finding in found)
    print(
        f"{terminal.broken(summary(metrics))}\n{terminal.broken(notes)}"
        f"report: {request.workdir / 'report.html'}\n"
        f"export: {shlex.join(['python', '-m', 'pipeline.export', *export])}"
    )
    return 0


def _write_json(result: dict) -> None:
    """Writes what --json asks for; only the chief of several processes does."""
    from pipeline.base import files
    from pipeline.training.engine import cluster

    if _JSON.value and cluster.is_chief():
        files.write_json(_JSON.value, result)


def _sweep(dataset: Dataset, root: pathlib.Path, *, is_validated: bool) -> None:
    """Trains at each point of a grid, or searches where there are ranges."""
    text = _SWEEP.value
    if text == _SEARCH:
        text = config.search_of_file(flags.FLAGS["config"].config_filename)
    place = {
        "config_of": functools.partial(_config_of, dataset),
        "root": root,
        "command": (COMMAND.name, *sys.argv[1:]),
        "warm_start": _warm_start(),
    }
    if not _TRIALS.value and not space.has_ranges(text):
        sweep.run(grid.points(text), dataset=dataset, **place)
        return
    found = space.space(text, config=_CONFIG.value.to_dict())
    number, sign = sweep.ranking(dataset.schema.label)
    if not is_validated:
        raise search.no_validation()
    searched = search.Search(
        space=found,
        config=config_lib.as_json(_CONFIG.value.to_dict()),
        digest=dataset.manifest.digest,
        number=number,
        sign=sign,
    )
    search.run(searched, trials=_TRIALS.value or _SOME_TRIALS, **place)


def _public(argument: str) -> str:
    """An argument without secrets, as run.json and the report show it."""
    is_of_observers = argument.startswith("--config.observers")
    return (redaction.public_text if is_of_observers else redaction.public_uris)(argument)


def _warm_start() -> pathlib.Path | None:
    return flags_lib.local_directory("warm_start", _WARM_START.value) if _WARM_START.value else None


def _resolved(values: base.Config, dataset: Dataset) -> defaults.Resolved:
    """The config for this dataset, and for the weights that the run begins with."""
    return defaults.resolve(values.to_dict(), dataset, begins_with=_begins_with())


def _begins_with() -> config_lib.Values | None:
    """The config of the run whose weights come first, from the run's own copy where it goes on."""
    start = _warm_start()
    if start is None:
        return None
    return start_lib.first_config(Workdir(flags_lib.local_directory("workdir", _WORKDIR.value)), start)


def _config_of(dataset: Dataset, point: grid.Point) -> config_lib.Values:
    """The config of a run of a sweep, as its run.json has it."""
    swept = config.swept(_CONFIG.value, point.values)
    return config_lib.as_json(_rate_scaling(swept, dataset).scaled(_resolved(swept, dataset).values))


def _rate_scaling(values: base.Config, dataset: Dataset) -> RateScaling:
    """How the learning rate of these values follows from their batch and that of the config file.

    If the file names no batch, its batch is the one that the rules choose for the data of `values`. If the
    command line names none either, both batches are the same.
    """
    if _LR_SCALING.value != config_lib.LINEAR:
        return RateScaling()
    of_file = config.config_of_file(flags.FLAGS["config"]).global_batch
    batch = defaults.batch_of_rows(values.to_dict(), dataset, batch=of_file)
    return RateScaling(how=config_lib.LINEAR, file_batch=batch)


def _launch(global_batch: int) -> int:
    """Trains in processes of their own."""
    workers.check_workers(
        _WORKERS.value,
        strategy=_STRATEGY.value,
        replicas=_WORKERS.value * _LOGICAL_DEVICES.value,
        global_batch=global_batch,
    )
    return workers.train(_WORKERS.value, (COMMAND.name, *sys.argv[1:]))


if __name__ == "__main__":
    run_command(main, COMMAND)
