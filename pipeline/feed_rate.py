r"""Will this host feed the accelerator? Measures the input pipeline's stages, alone and together.

  python -m pipeline.feed_rate --config=pipeline/configs/tabular.py --dataset=data/adult/1.0.0 --step_ms=5

The time of a step is that of the accelerator at work, without its wait for input; a run's report names it.
Where it is not given, the shortest step that this host feeds is printed. With --slice=v5e-16, or --slice=4x8
for 4 hosts of 8 replicas each, this host is measured as one of that slice's hosts. For a TPU slice, it also
prints what its hosts are expected to give with their own cores. With --cold, the files are also measured as
read from the disk, as in a first epoch or if they do not fit into memory.

The exit code is 1 if training would be starved.
"""

if __name__ == "__main__":  # Ctrl-C may come while the imports below run
    from pipeline.base.cli import signals

    signals.handle_signals()

import datetime
import math
import pathlib
import platform
from collections.abc import Sequence

from absl import flags

from pipeline.base import machine
from pipeline.base.cli import config
from pipeline.base.cli import flags as flags_lib
from pipeline.base.cli.command import Command
from pipeline.base.cli.run import run_command
from pipeline.base.errors import InputError
from pipeline.configs import base
from pipeline.data.dataset import window
from pipeline.data.dataset.manifest import Dataset
from pipeline.feed import scaling
from pipeline.training.experiment import config as config_lib
from pipeline.training.experiment import defaults

_CONFIG = config.define_config(
    "FILE: the experiment, one of pipeline/configs or your own. --config.KEY=VALUE overrides it."
)
_DATASET = flags.DEFINE_multi_string(
    "dataset",
    None,
    "DIRECTORY: the dataset, as beam_jobs.convert wrote it. Several, or a glob in quotes, are read as one.",
)
_STEP_MS = flags.DEFINE_float("step_ms", None, "Milliseconds that the accelerator takes for a global batch.")
_SLICE = flags.DEFINE_string(
    "slice",
    "",
    "SLICE: what trains: a TPU slice such as v5e-8 or tpu7x:2x2x1, or HOSTSxREPLICAS. The default is one "
    "replica on this machine.",
)
_SECONDS = flags.DEFINE_float("seconds", 2.0, "How long each stage is measured.")
_COLD = flags.DEFINE_bool(
    "cold",
    False,
    "Also measure while the files are read from the disk, and decide by the slower measurement.",
)
_MAX_CORRUPT_RECORDS = flags.DEFINE_integer(
    "max_corrupt_records",
    0,
    "How many damaged records of the training split may be left out. Training also counts those of the "
    "splits that it evaluates on.",
    lower_bound=0,
)
_JSON = flags.DEFINE_string("json", None, "FILE: also write the certificate to it, as JSON.")
_CHART = flags.DEFINE_string("chart", None, "FILE: also draw the certificate: .svg, or .html for a page.")

STARVED = 1
CHARTS = (".svg", ".html")
_DIGEST_CHARACTERS = 12


COMMAND = Command(
    name="pipeline.feed_rate",
    description=__doc__,
    required=(_CONFIG, _DATASET),
    flags={
        "What is fed": (_CONFIG, _DATASET, _STEP_MS, _SLICE, _MAX_CORRUPT_RECORDS),
        "Measuring": (_SECONDS, _COLD),
        "Results": (_JSON, _CHART),
    },
    config_keys=lambda: config.keys_of(base),
)


def main(argv: Sequence[str]) -> int:
    del argv
    _check_flags()
    slice_ = scaling.parse_slices(_SLICE.value)
    dataset = window.open_window(_DATASET.value)
    data = config_lib.parse(defaults.resolve(_CONFIG.value.to_dict(), dataset).values).data
    # Imported here: TensorFlow takes seconds, and --help or a wrong flag should not.
    from pipeline.base import (
        files,
        tensorflow_start,  # noqa: F401 - before TensorFlow
    )
    from pipeline.feed import chart, table
    from pipeline.report import terminal
    from pipeline.training.run import feed

    certificate, advice = feed.certify(
        data,
        dataset,
        slice_=slice_,
        step_ms=_STEP_MS.value,
        seconds=_SECONDS.value,
        uncached=_COLD.value,
        max_corrupt_records=_MAX_CORRUPT_RECORDS.value,
    )
    origin = _origin(dataset)
    print(terminal.render(table.sections(certificate, advice, origin)))
    if _JSON.value:
        files.write_json(_JSON.value, certificate.as_json() | {"advice": advice, "origin": origin})
    if _CHART.value:
        is_svg = _CHART.value.endswith(".svg")
        drawn = chart.svg(certificate) if is_svg else chart.page(certificate, advice, origin)
        files.write_bytes(_CHART.value, drawn.encode())
    return STARVED if certificate.is_fed is False else 0


def _origin(dataset: Dataset) -> dict[str, str]:
    """Returns when, where and on which dataset the certificate was measured."""
    manifest = dataset.manifest
    processor = machine.processor("model name") or platform.machine()
    return {
        "measured": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{platform.node()}, {processor}",
        "dataset": f"{manifest.name} {manifest.version}, {manifest.digest[:_DIGEST_CHARACTERS]}, "
        f"in {dataset.directory}",
    }


def _check_flags() -> None:
    for name, value in (("--step_ms", _STEP_MS.value), ("--seconds", _SECONDS.value)):
        if value is not None and not 0 < value < math.inf:  # NaN is refused too
            raise InputError(name, received=value, expected="a positive number", action="Correct the flag.")
    if _CHART.value and pathlib.Path(_CHART.value).suffix not in CHARTS:
        raise InputError(
            "--chart",
            received=_CHART.value,
            expected=f"a file name that ends in {' or '.join(CHARTS)}",
            action="Rename the file.",
        )
    flags_lib.check_local_files({"json": _JSON.value, "chart": _CHART.value})


if __name__ == "__main__":
    run_command(main, COMMAND)
