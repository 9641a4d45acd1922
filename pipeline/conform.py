r"""Tests whether a model does what training, checkpoints, replicas and exports rely on.

  python -m pipeline.conform --config=pipeline/configs/tabular.py --dataset=data/adult/1.0.0 \
      --config.model.name=my_model:build

It takes batches of the dataset, on this machine's processor, without dropout, before anything is rented.

  first loss      near that of even odds, or of the mean label
  gradients       reach every weight
  batch of one    an example's answer does not depend on the others of its batch
  seen tokens     a token's logits depend on those before it in its document alone (next_token only)
  restored        built again, with the same weights: the same bits
  export          saved, and loaded again: the same bits
  tracing         makes no new variables, and the same operations each time
  bfloat16        each layer alone, against float32
  replicas        two of them, and micro-batches, against one

Each takes a minute or more with a large model. What fails is named by its layer or variable, with what to do.
Exit code 0: nothing fails; 1: something does.
"""

if __name__ == "__main__":  # Ctrl-C may come while the imports below run
    from pipeline.base.cli import signals

    signals.handle_signals(done="nothing was written; the same command begins anew")

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from absl import flags

from pipeline.base import files
from pipeline.base.cli import config
from pipeline.base.cli import flags as flags_lib
from pipeline.base.cli.command import Command
from pipeline.base.cli.run import run_command
from pipeline.configs import base
from pipeline.data.dataset import window
from pipeline.training.experiment import config as config_lib
from pipeline.training.experiment import defaults

if TYPE_CHECKING:
    from pipeline.report.comparison import Comparison

_CONFIG = config.define_config("FILE: the experiment whose model is tried. --config.KEY=VALUE overrides it.")
_DATASET = flags.DEFINE_multi_string(
    "dataset",
    None,
    "DIRECTORY: the dataset, as beam_jobs.convert wrote it. Several, or a glob in quotes, are read as one.",
)
_JSON = flags.DEFINE_string("json", None, "FILE: also write every error to it, as JSON.")

COMMAND = Command(
    name="pipeline.conform",
    description=__doc__,
    required=(_CONFIG, _DATASET),
    flags={"What is tried": (_CONFIG, _DATASET), "Results": (_JSON,)},
    config_keys=lambda: config.keys_of(base),
)
EXIT_FAILS = 1


def main(argv: Sequence[str]) -> int:
    del argv
    flags_lib.check_local_files({"json": _JSON.value})
    dataset = window.open_window(_DATASET.value)
    values = defaults.resolve(_CONFIG.value.to_dict(), dataset).values
    experiment = config_lib.parse(values, config_file=flags.FLAGS["config"].config_filename)
    # Imported here: TensorFlow takes seconds, and --help or a wrong flag should not.
    from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

    # isort: split
    from pipeline.report import terminal
    from pipeline.report.comparison import as_json, format_verdict, section
    from pipeline.training.engine import strategy
    from pipeline.training.parity import conformance, layers, subject, updates

    def begins(name: str) -> None:
        print(f"comparing: {name}", file=sys.stderr, flush=True)

    def comparisons() -> "Iterator[Comparison]":
        # Comes first, because it splits the processor.
        many = strategy.create("mirrored", logical_devices=updates.PARTS)
        one = strategy.create("one_device", logical_devices=updates.PARTS)
        tried = subject.of_experiment(experiment, dataset)
        updates.check_optimizer(tried)  # before minutes of comparisons
        yield from conformance.compare(tried, begins=begins)
        begins("bfloat16")
        yield layers.compare(tried)
        yield from updates.compare(tried, one, many, begins=begins)

    found = []
    for comparison in comparisons():
        print(terminal.render([section(comparison)]), flush=True)
        found.append(comparison)
    if _JSON.value:
        files.write_json(_JSON.value, as_json(found))
    print(f"\n{format_verdict(found)}")
    return EXIT_FAILS if any(each.found for each in found) else 0


if __name__ == "__main__":
    run_command(main, COMMAND)
