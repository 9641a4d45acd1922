r"""Says before you rent: does this training step compile for an accelerator, does it fit, how fast may it be?

  python -m pipeline.preflight --config=pipeline/configs/tabular.py --dataset=data/adult/1.0.0 \
      --target=v5e:2x4,v6e:2x2,tpu7x:2x2x1,h100:8 --batch=256,1024 --prices=prices.json

It has six stages, each with a verdict. The first error ends what depends on it:

lint           padding of the tiles, int64 and text, tables that are updated whole, formats a chip lacks
two steps      two real steps on two replicas of this machine's processor; left out where memory is short
lowering       the step as a program; an operation that has none is named with its line
compilation    by the TPU's own compiler, which needs no TPU: memory, operations, cycles by layer
data-parallel  the same for all devices of a TPU slice at once, with the sums over them, and what time a model
               of the links gives these
feed           what this host's input pipeline gives, and what the hosts of a TPU slice are expected to give

A plan follows, with the time of an epoch and of the run on each target, and their cost if --prices is given.

A TPU's figures are its compiler's estimates, a GPU's follow from its peaks: nothing is measured. Times are a
band, from the roofline to the compiler's cycles. TPUs need requirements/preflight.txt.

Exit code 0: nothing speaks against any target; 1: something does.
"""

if __name__ == "__main__":  # Ctrl-C may come while the imports below run
    from pipeline.base.cli import signals

    signals.handle_signals()

import dataclasses
import datetime
import functools
import importlib.metadata
import os
import pathlib
import shlex
import sys
from collections.abc import Sequence

import psutil
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
from pipeline.data.dataset.selection import selected_ranges
from pipeline.forecast import target as target_lib
from pipeline.training.experiment import config as config_lib
from pipeline.training.experiment import defaults

_CONFIG = config.define_config("FILE: the experiment. --config.KEY=VALUE overrides it.")
_DATASET = flags.DEFINE_multi_string(
    "dataset",
    None,
    "DIRECTORY: the dataset, as beam_jobs.convert wrote it. Several, or a glob in quotes, are read as one.",
)
_TARGET = flags.DEFINE_list(
    "target", None, "SLICE,…: what would be rented: v5e:2x4, v5p:2x2x1, tpu7x:2x2x1, h100:8, …"
)
_PRECISION = flags.DEFINE_enum(
    "precision",
    "auto",
    ["auto", "float32", "mixed_bfloat16", "mixed_float16"],
    "Number format to compute in. auto: mixed_bfloat16, or mixed_float16 on a chip that lacks it.",
)
_FIND_MAX_BATCH = flags.DEFINE_boolean(
    "find_max_batch",
    False,
    "Also search for the largest batch that fits a TPU's device; this takes some more compilations.",
)
_BATCH = flags.DEFINE_list(
    "batch", [], "NUMBER,…: global batches to forecast. By default the one in the config."
)
_FEED = flags.DEFINE_boolean("feed", True, "Measure how fast the input pipeline is on this host.")
_PRICES = flags.DEFINE_string(
    "prices",
    None,
    'FILE: prices of a chip\'s hour, as JSON: {"as_of": "2026-11-01", "currency": "USD", '
    '"chip_hour": {"v5e": 1.2}}.',
)
_REHEARSE = flags.DEFINE_boolean("rehearse", True, "Run two real steps on this machine's processor.")
_DATA_PARALLEL = flags.DEFINE_boolean(
    "data_parallel", True, "Compile for all devices of a TPU slice, too: it takes as long as for one."
)
_TIMEOUT = flags.DEFINE_integer(
    "timeout_s", 600, "Seconds that one compilation may take; large models take minutes.", lower_bound=1
)
_CACHE = flags.DEFINE_string(
    "cache",
    None,
    "DIRECTORY: keeps answers of the compiler, for later runs with the same program. "
    "Default: penstock/preflight below $XDG_CACHE_HOME, or ~/.cache. Empty: none.",
)
_HTML = flags.DEFINE_string("html", None, "FILE: also write the output to it, as one web page.")
_JSON = flags.DEFINE_string("json", None, "FILE: also write the output to it, as JSON.")

COMMAND = Command(
    name="pipeline.preflight",
    description=__doc__,
    required=(_CONFIG, _DATASET, _TARGET),
    flags={
        "What is forecast": (_CONFIG, _DATASET, _TARGET, _BATCH, _PRECISION, _FIND_MAX_BATCH),
        "Stages": (_REHEARSE, _DATA_PARALLEL, _FEED, _TIMEOUT, _CACHE),
        "Results": (_PRICES, _HTML, _JSON),
    },
    config_keys=lambda: config.keys_of(base),
)
EXIT_SPEAKS_AGAINST = 1
_FEED_SECONDS = 1.0  # how long each stage of the input pipeline is measured


def main(argv: Sequence[str]) -> int:
    del argv
    flags_lib.check_local_files({"html": _HTML.value, "json": _JSON.value, "prices": _PRICES.value})
    targets, cache = target_lib.targets_of(_TARGET.value), _cache()
    dataset = window.open_window(_DATASET.value)
    resolved = defaults.resolve(_CONFIG.value.to_dict(), dataset)
    config_file = flags.FLAGS["config"].config_filename
    experiment = config_lib.parse(resolved.values, config_file=config_file)
    batches = [
        (each, _batch(batch, each)) for each in targets for batch in _batches(experiment.data.global_batch)
    ]
    # Imported here: TensorFlow takes seconds, and --help or a wrong flag should not.
    from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

    # isort: split
    from pipeline.feed import scaling
    from pipeline.forecast import compiler, host_feed, lowering, page, plan, rehearsal, stages
    from pipeline.report import html, terminal
    from pipeline.training.engine.precision import Precision
    from pipeline.training.run import feed

    prices = plan.read_prices(pathlib.Path(_PRICES.value)) if _PRICES.value else None
    if any(each.accelerator.is_tpu for each in targets):
        compiler.require_installed()
    certificate = None
    if _FEED.value:
        certificate, _ = feed.certify(
            experiment.data, dataset, slice_=scaling.HERE, step_ms=None, seconds=_FEED_SECONDS
        )

    @functools.cache
    def weighed(policy: str, replicas: int = 1) -> lowering.Weighed:
        precision = Precision(policy=policy, reason="asked for")
        return lowering.weigh(experiment, dataset, precision=precision, replicas=replicas)

    first = weighed(_policy(targets[0]))
    told = (*resolved.lines, *_batches_told(experiment), *first.notes)
    if told:
        print(terminal.broken("\n".join(told)) + "\n", flush=True)
    rehearsed = None
    if _REHEARSE.value:
        rehearsed = rehearsal.rehearse(
            resolved.values,
            _DATASET.value,
            config_file=config_file,
            weighed=first,
            free_bytes=psutil.virtual_memory().available,
        )
    found = []
    for each, batch in batches:
        policy = _policy(each)
        # A compilation takes minutes, in which nothing else is written.
        print(f"forecasting: {each.name}, batch {batch * each.devices:,}", file=sys.stderr, flush=True)
        is_divided = _DATA_PARALLEL.value and each.topology and each.devices > 1
        forecast = stages.forecast(
            weighed(policy),
            each,
            batch=batch,
            policy=policy,
            timeout_s=_TIMEOUT.value,
            cache=cache,
            searches=_FIND_MAX_BATCH.value,
            of_slice=functools.partial(weighed, policy, each.devices) if is_divided else None,
        )
        if certificate:
            fed = host_feed.of_hosts(certificate, each, forecast.band, batch=batch)
            forecast = dataclasses.replace(forecast, stages=(*forecast.stages, fed))
        found.append(forecast)
        print(terminal.render([page.section(forecast)]) + "\n", flush=True)
    rows = _rows(experiment, dataset)
    examples = _examples(experiment, rows)
    plans = plan.planned(found, rows=rows, examples=examples, certificate=certificate, prices=prices)
    today = datetime.date.today()
    about = _about(sys.argv[1:], today)
    sections = [
        plan.section(
            plans,
            prices,
            examples=examples,
            without=plan.unplanned(found, plans),
            today=today,
        )
    ]
    print(terminal.render([page.head(found, rehearsed), *sections]))
    if _HTML.value:
        top = page.head(found, rehearsed, told=told, about=about)
        files.write_bytes(_HTML.value, html.page(top, [*sections, *map(page.section, found)]).encode())
    if _JSON.value:
        files.write_json(
            _JSON.value,
            page.as_json(found, rehearsed, plan.as_json(plans, prices), told=told, about=about),
        )
    is_good = all(each.is_good for each in found) and (rehearsed is None or rehearsed.is_good is not False)
    return 0 if is_good else EXIT_SPEAKS_AGAINST


def _about(arguments: Sequence[str], today: datetime.date) -> dict[str, str]:
    names = ("tensorflow", "tensorflow-cpu", "tensorflow-tpu", "keras", "jax", "libtpu")
    installed = [each for each in names if any(importlib.metadata.distributions(name=each))]
    return {
        "command": shlex.join(["python", "-m", "pipeline.preflight", *arguments]),
        "day": today.isoformat(),
        "versions": ", ".join(f"{each} {importlib.metadata.version(each)}" for each in installed),
    }


def _rows(experiment: config_lib.Experiment, dataset: Dataset) -> int:
    """The rows of an epoch."""
    _, ranges = selected_ranges(dataset, experiment.data.split)
    return sum(end - first for first, end in ranges)


def _examples(experiment: config_lib.Experiment, rows: int) -> int:
    """The examples of the whole run, whose epochs have `rows`."""
    train = experiment.train
    if train.steps:
        return train.steps * experiment.data.global_batch
    return round(train.epochs * rows)


def _batches(of_config: int) -> list[int]:
    """The global batches of --batch, each once, or that of the config."""
    for text in _BATCH.value:
        if not (
            text.isascii() and text.isdigit() and len(text) < 11 and 0 < int(text) <= config_lib.MOST_EXAMPLES
        ):
            raise InputError(
                "--batch",
                received=repr(text[:40]),
                expected=f"whole numbers from 1 to {config_lib.MOST_EXAMPLES:,}",
                action="Correct the flag.",
            )
    return list(dict.fromkeys(map(int, _BATCH.value))) or [of_config]


def _batches_told(experiment: config_lib.Experiment) -> tuple[str, ...]:
    if not _BATCH.value:
        return ()
    given = ", ".join(f"{each:,}" for each in _batches(0))
    of_config = f"{experiment.data.global_batch:,}"
    return (f"batch      {given} by --batch; the run has as many examples as with the config's {of_config}",)


def _policy(target: target_lib.Target) -> str:
    if _PRECISION.value != "auto":
        return _PRECISION.value
    return "mixed_bfloat16" if target.accelerator.has_bfloat16 else "mixed_float16"


def _batch(global_batch: int, target: target_lib.Target) -> int:
    """The examples of a device; raises InputError where the devices do not divide the batch."""
    batch, rest = divmod(global_batch, target.devices)
    if rest or not batch:
        raise InputError(
            f"--target={target.name}",
            received=f"{target.devices} devices for a batch of {global_batch}",
            expected="a global batch that the devices divide",
            action=f"For example {_named_batch()}={max(1, batch) * target.devices}.",
        )
    return batch


def _named_batch() -> str:
    return "--batch" if _BATCH.value else "--config.global_batch"


def _cache() -> pathlib.Path | None:
    if _CACHE.value == "":
        return None
    if _CACHE.value is not None:
        asked = flags_lib.local_directory("cache", _CACHE.value)
        asked.mkdir(parents=True, exist_ok=True)  # fails now, not after minutes
        return asked
    above = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(above) / "penstock" / "preflight"


if __name__ == "__main__":
    run_command(main, COMMAND)
