r"""Compares ways of computing that must agree: precision, replicas, micro-batches, sparse gradients, export.

  python -m pipeline.parity --workdir=runs/adult
  python -m pipeline.parity --config=pipeline/configs/tabular.py --dataset=data/adult/1.0.0

The first command takes the weights of a run. The second takes those that a run would begin with, so it can
check a config before you rent anything. Both use batches of the dataset, on this machine's processor, without
dropout.

bfloat16        each layer by itself, on the inputs that it has in float32: its outputs and gradients
sparse          three steps of training against a plain loop with dense gradients
replicas        the same on two replicas
micro-batches   the same in two micro-batches
export          the export of a run, loaded again, against the graph in memory

An error is ‖a − b‖ / ‖b‖. Errors above their tolerance are listed, the worst first, with advice. Exit code 0:
all that was compared agrees; 1: something differs.
"""

if __name__ == "__main__":  # Ctrl-C may come while the imports below run
    from pipeline.base.cli import signals

    signals.handle_signals()

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from absl import flags

from pipeline.base import files
from pipeline.base.cli import config
from pipeline.base.cli import flags as flags_lib
from pipeline.base.cli.command import Command
from pipeline.base.cli.run import run_command
from pipeline.base.errors import InputError
from pipeline.configs import base
from pipeline.data.dataset import window
from pipeline.data.dataset.manifest import Dataset
from pipeline.training.experiment import config as config_lib
from pipeline.training.experiment import defaults
from pipeline.training.experiment.config import Experiment
from pipeline.training.state.workdir import existing

if TYPE_CHECKING:
    from pipeline.report.comparison import Comparison

_CONFIG = config.define_config("FILE: an experiment that has no run yet. --config.KEY=VALUE overrides it.")
_WORKDIR = flags.DEFINE_string("workdir", None, "DIRECTORY: the run, as pipeline.train wrote it.")
_DATASET = flags.DEFINE_multi_string(
    "dataset",
    [],
    "DIRECTORY: the dataset of --config; or where a run's dataset is now, if it was moved. Several, or a "
    "glob in quotes, are read as one.",
)
_JSON = flags.DEFINE_string("json", None, "FILE: also write every error to it, as JSON.")

COMMAND = Command(
    name="pipeline.parity",
    description=__doc__,
    flags={"What is compared": (_WORKDIR, _CONFIG, _DATASET), "Results": (_JSON,)},
    config_keys=lambda: config.keys_of(base),
)
EXIT_DIFFERS = 1


def main(argv: Sequence[str]) -> int:
    del argv
    _check_flags()
    if _WORKDIR.value:
        existing(flags_lib.local_directory("workdir", _WORKDIR.value))
    # Imported here: TensorFlow takes seconds, and --help or a wrong flag should not.
    from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

    # isort: split
    from pipeline.report import terminal
    from pipeline.report.comparison import as_json, format_verdict, section

    found = []
    for comparison in _comparisons():
        print(terminal.render([section(comparison)]), flush=True)
        found.append(comparison)
    if _JSON.value:
        files.write_json(_JSON.value, as_json(found))
    print(f"\n{format_verdict(found)}")
    return EXIT_DIFFERS if any(each.found for each in found) else 0


def _comparisons() -> "Iterator[Comparison]":
    from pipeline.exporting import parity
    from pipeline.training.engine import strategy
    from pipeline.training.experiment.restore import restore_model
    from pipeline.training.parity import layers, subject, updates

    dataset = window.open_window(_DATASET.value) if _CONFIG.value else None
    experiment = _experiment(dataset) if dataset else None
    many = strategy.create("mirrored", logical_devices=updates.PARTS)  # first: it splits the processor
    one = strategy.create("one_device", logical_devices=updates.PARTS)
    run = restore_model(flags_lib.local_directory("workdir", _WORKDIR.value)) if _WORKDIR.value else None
    if run:
        compared = subject.of_run(run, moved_to=_DATASET.value)
    else:
        compared = subject.of_experiment(experiment, dataset)
    yield layers.compare(compared)
    yield from updates.compare(compared, one, many)
    if run:
        yield parity.compare(run)


def _experiment(dataset: Dataset) -> Experiment:
    values = defaults.resolve(_CONFIG.value.to_dict(), dataset).values
    return config_lib.parse(values, config_file=flags.FLAGS["config"].config_filename)


def _check_flags() -> None:
    flags_lib.check_local_files({"json": _JSON.value})
    if bool(_WORKDIR.value) == bool(_CONFIG.value):
        raise InputError(
            "--workdir",
            received="--config too" if _WORKDIR.value else "nothing",
            expected="either --workdir=RUN, or --config=FILE with --dataset=DIRECTORY",
            action="--workdir compares a run; --config one that has not begun.",
        )
    if _CONFIG.value and not _DATASET.value:
        raise InputError(
            "--dataset",
            received="nothing",
            expected="the dataset of --config",
            action="Name its directory.",
        )


if __name__ == "__main__":
    run_command(main, COMMAND)
