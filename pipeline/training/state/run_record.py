"""run.json: what was run on what, how far it came, and whether another command may go on with it."""

import dataclasses
import pathlib
from collections.abc import Mapping

from pipeline.data import atomic_files
from pipeline.data.errors import InputError
from pipeline.training.state import workdir as files

# What weights or the order of the examples depend on, and so must not change between two commands on one
# working directory. The rest (epochs, learning rate, callbacks, log points, …) may.
BOUND = (
    "model",
    "image_size",
    "seed",
    "global_batch",
    "image_dtype",
    "shuffle",
    "train.split",
    "train.weight",
    "mixture",
    "optimizer.name",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunRecord:
    """The content of run.json, in its order. What a run cannot go on without has no default."""

    command: str = ""
    dataset: str = ""  # directory
    dataset_digest: str
    order: int = 0  # version of the order of rows; 0: from before there were versions
    config_file: str = ""
    config: Mapping[str, object]
    strategy: str = ""
    replicas: int = 1
    devices: tuple[str, ...] = ()
    precision: Mapping[str, str]  # policy, reason
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    machine: Mapping[str, object] = dataclasses.field(default_factory=dict)
    jit_compile: bool = False
    total_steps: int
    damaged_records: int = 0
    # Known once training starts:
    parameters: int = 0
    started: str = ""  # ISO 8601, UTC
    finished: bool = False
    steps: int = 0
    seconds: float = 0.0


def read(path: pathlib.Path) -> RunRecord | None:
    """The record; None where there is no such file. Raises InputError where the file holds none."""
    document = files.read_json(path)
    if document is None:
        return None
    fields = {field.name: field for field in dataclasses.fields(RunRecord)}
    needed = [
        name
        for name, field in fields.items()
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    lacking = [name for name in needed if not isinstance(document, dict) or name not in document]
    if lacking:
        raise InputError(
            f"file {path}",
            received=f"a document without {', '.join(lacking)}",
            expected="what the training run wrote there",
            action="Restore the file from a copy, or train in an empty --workdir.",
        )
    return RunRecord(**{name: value for name, value in document.items() if name in fields})


def write(path: pathlib.Path, record: RunRecord) -> None:
    """Replaces the file at once."""
    atomic_files.write_json(path, dataclasses.asdict(record))


def require_same(before: RunRecord, now: RunRecord) -> None:
    """Raises InputError where the working directory belongs to another run."""
    if before.dataset_digest != now.dataset_digest:
        raise _other("dataset", before.dataset_digest[:12], now.dataset_digest[:12])
    if before.precision["policy"] != now.precision["policy"]:
        raise _other("--precision", before.precision["policy"], now.precision["policy"])
    if before.order != now.order:
        raise InputError(
            "--workdir, order of rows",
            received=f"version {now.order}",
            expected=f"{before.order or 'an older one'}, in which the run that this directory holds began",
            action="Choose an empty --workdir, or finish the run with the Penstock that began it.",
        )
    for key in BOUND:
        was, is_ = field(before.config, key), field(now.config, key)
        if was != is_:
            raise _other(f"--config.{key}", was, is_)


def field(config: Mapping, path: str) -> object:
    """The value at a dotted path such as `optimizer.name`."""
    value: object = config
    for name in path.split("."):
        value = value[name]
    return value


def _other(thing: str, was: object, is_: object) -> InputError:
    return InputError(
        f"--workdir, {thing}",
        received=is_,
        expected=f"{was}, as in the run that this directory holds",
        action="Choose an empty --workdir, or the same settings to continue that run.",
    )
