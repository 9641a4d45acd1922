r"""Trains a model on a dataset, evaluates it, and writes a report.

  python -m pipeline.train --config=pipeline/configs/digits_resnet.py --dataset=data/digits/1.0.0 \
      --workdir=runs/digits

Any value of the config can be overridden: --config.train.epochs=3 --config.optimizer.name=sgd

Two replicas on one CPU, as a rehearsal: --strategy=mirrored --logical_devices=2
All GPUs of a machine: --strategy=mirrored. Several machines: --strategy=multi_worker with TF_CONFIG set.

Interrupted? The same command goes on from the last checkpoint.
To watch it: tensorboard --logdir=WORKDIR/summaries
"""

import pathlib
import shlex
import sys
from collections.abc import Sequence

from absl import app, flags, logging
from ml_collections import config_flags

from pipeline.data import manifest
from pipeline.data.errors import answers_bad_input
from pipeline.training.config_flag import parse_flags

_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Experiment, one of pipeline/configs or your own; --config.a.b=value overrides."
)
_DATASET = flags.DEFINE_string("dataset", None, "Directory written by beam_jobs.convert.", required=True)
_WORKDIR = flags.DEFINE_string(
    "workdir", None, "Directory for checkpoints, metrics and report; continued if it exists.", required=True
)
_STRATEGY = flags.DEFINE_enum(
    "strategy",
    "auto",
    ["auto", "one_device", "mirrored", "multi_worker", "tpu"],
    "tf.distribute strategy; auto takes every device that there is.",
)
_LOGICAL_DEVICES = flags.DEFINE_integer(
    "logical_devices", 1, "Pieces to split the CPU into, to try several replicas on one.", lower_bound=1
)
_PRECISION = flags.DEFINE_enum(
    "precision",
    "auto",
    ["auto", "float32", "mixed_bfloat16", "mixed_float16"],
    "Number format to compute in; auto takes what the hardware does natively, and says why.",
)
_MAX_CORRUPT_RECORDS = flags.DEFINE_integer(
    "max_corrupt_records",
    0,
    "Damaged records that may be left out of all splits together; with 0, the first one ends the run.",
    lower_bound=0,
)
_DATA_SERVICE = flags.DEFINE_list(
    "data_service", [], "grpc://HOST:PORT of each pipeline.data_service that prepares the batches."
)
_JSON = flags.DEFINE_string("json", None, "Also write the final metrics to this file.")

flags.mark_flag_as_required("config")


@answers_bad_input
def main(argv: Sequence[str]) -> None:
    del argv
    dataset = manifest.open_dataset(_DATASET.value)
    # Imported here: TensorFlow takes seconds, and --help or a wrong flag should not.
    from pipeline import quiet  # noqa: F401 - before TensorFlow
    from pipeline.data import whole_files
    from pipeline.training import run
    from pipeline.training.progress import summary

    logging.set_verbosity(logging.WARNING)  # TensorFlow tells of each checkpoint's sharding otherwise
    request = run.Request(
        config=_CONFIG.value,
        config_file=flags.FLAGS["config"].config_filename,
        dataset=dataset,
        workdir=pathlib.Path(_WORKDIR.value),
        strategy=_STRATEGY.value,
        logical_devices=_LOGICAL_DEVICES.value,
        precision=_PRECISION.value,
        max_corrupt_records=_MAX_CORRUPT_RECORDS.value,
        data_service=tuple(_DATA_SERVICE.value),
        command=f"python -m pipeline.train {shlex.join(sys.argv[1:])}",
    )
    metrics = run.train(request)
    if _JSON.value:
        whole_files.write_json(_JSON.value, metrics)
    print(
        f"{summary(metrics)}\n"
        f"report: {request.workdir / 'report.html'}\n"
        f"export: python -m pipeline.export --workdir={request.workdir} --output={request.workdir / 'export'}"
    )


if __name__ == "__main__":
    app.run(main, flags_parser=parse_flags)
