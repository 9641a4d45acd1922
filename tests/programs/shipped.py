"""The training steps of the shipped configs as numbers, and the files that keep them."""

import importlib
import pathlib
from collections.abc import Mapping

import keras
import tensorflow as tf

from pipeline.configs.base import Config
from pipeline.data.dataset import window
from pipeline.forecast import lowering
from pipeline.training.engine.precision import Precision
from tests.programs.summary import LARGEST, MOST_KEPT, summarise
from tests.shared.parsed import parsed
from tests.soak.public_models import SHIPPED, Case, make_dataset

GOLDENS = pathlib.Path(__file__).resolve().parent / "goldens"
CASES = {case.name.removesuffix(".py"): case for case in SHIPPED}
DEVICES = 4  # among which a step is divided: the sums over them belong to it
_WIDTH = 60
_OVERRIDE = "--config."
# A run takes the precision from the machine's processor, but not here.
_PRECISION = Precision(policy="mixed_bfloat16", reason="the same on all machines")


def summary_of(name: str, scratch: pathlib.Path) -> dict[str, str]:
    """Numbers of a config's step on a device, each with what it counts.

    Args:
      scratch: folder of small datasets, which are written where they are missing.
    """
    case = CASES[name]
    dataset = window.open_window([str(make_dataset(scratch, case.dataset))])
    weighed = lowering.weigh(parsed(_config(case), dataset), dataset, precision=_PRECISION, replicas=DEVICES)
    counted = summarise(weighed.program(case.batch).content)
    versions = {"tensorflow": tf.__version__, "keras": keras.__version__}
    return versions | {"examples": str(case.batch)} | {what: f"{n:,}" for what, n in counted.items()}


def _config(case: Case) -> Config:
    """The config, with the flags of its case, such as --config.image_size=28,28."""
    config = importlib.import_module(f"pipeline.configs.{case.name.removesuffix('.py')}").get_config()
    for flag in case.flags:
        if flag.startswith(_OVERRIDE):
            key, _, value = flag.removeprefix(_OVERRIDE).partition("=")
            config[key] = tuple(map(int, value.split(",")))
    return config


# --- The files: a line for each number.


def text_of(summary: Mapping[str, str]) -> str:
    return "".join(f"{what:<{_WIDTH}} {number:>16}\n" for what, number in summary.items())


def read(text: str) -> dict[str, str]:
    return dict((part.strip() for part in line.rsplit(maxsplit=1)) for line in text.splitlines())


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """A line for each number that is another one, such as `transpose: 12 → 14 (1.17x)`."""
    both = dict.fromkeys((*before, *after))
    return [
        f"{what}: {_changed(before.get(what, _missing(what)), after.get(what, _missing(what)))}"
        for what in both
        if before.get(what) != after.get(what)
    ]


def _missing(what: str) -> str:
    return "not among the largest" if what.startswith((LARGEST, MOST_KEPT)) else "0"


def _changed(before: str, after: str) -> str:
    old, new = (each.replace(",", "") for each in (before, after))
    is_ratio = old.isdigit() and new.isdigit() and int(old) > 0
    return f"{before} → {after}" + (f" ({int(new) / int(old):.2f}x)" if is_ratio else "")
