"""run.json: the command and its data, the progress of the run, and digests of the files that it needs."""

import dataclasses
import math
import pathlib
import types
import typing
from collections.abc import Mapping

from pipeline.base import documents, files
from pipeline.base.values import Values, with_values
from pipeline.training.state import workdir

_DAMAGED = "damaged.json"
# Files of the working directory that a run writes once, and later commands read.
_VOUCHED_FOR = (
    *(
        "golden.tfrecord",
        "schema.json",
        "statistics.pb",
        "dataset_statistics.pb",
        _DAMAGED,
        "model.keras",
    ),
    *("start/variables.index", "start/variables.data-00000-of-00001"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunRecord:
    """The content of run.json, in its order. Fields that a run needs to continue have no default."""

    command: str = ""
    dataset: str = ""  # directory; for several datasets, the one in which all of them lie
    dataset_digest: str
    spans: tuple[Mapping[str, str], ...] = ()  # directory and digest of each of several datasets, in order
    order: int  # version of the order of rows
    update: int  # version of the code by which gradients change weights
    augmentation: int  # version of the pixels of augmented images; 0: no image was changed
    # See start.py; empty: there was none.
    warm_start: Mapping[str, object] = dataclasses.field(default_factory=dict)
    # See first_weights.py; empty: there was none.
    init: Mapping[str, object] = dataclasses.field(default_factory=dict)
    config_file: str = ""
    config: Mapping[str, object]
    code: Mapping[str, Mapping[str, object]] = dataclasses.field(default_factory=dict)  # see code.py
    # Callbacks of the user's own, see experiment/own_classes.py.
    callbacks: tuple[Mapping[str, object], ...] = ()
    mixture_digests: tuple[str, ...] = ()  # digests of the datasets of config.mixture, in its order
    strategy: str = ""
    replicas: int = 1
    devices: tuple[str, ...] = ()
    precision: Mapping[str, str]  # policy and reason
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
    # Steps whose loss was not finite, and what was done about each.
    bad_steps: tuple[Mapping[str, int | str], ...] = ()
    # The step at which the run was made longer, and its number of steps before.
    lengthened: tuple[Mapping[str, int], ...] = ()
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)  # SHA-256 by name

    @property
    def datasets(self) -> tuple[tuple[str, str], ...]:
        """Directory and digest of each dataset that `--dataset` named, in order."""
        spans = tuple((span["directory"], span["digest"]) for span in self.spans)
        return spans or ((self.dataset, self.dataset_digest),)


def read(path: pathlib.Path) -> RunRecord | None:
    """Reads the record; None if there is no such file. Raises InputError if the file does not hold one."""
    document = workdir.read_json(path)
    if document is None:
        return None
    fields = {field.name: field for field in dataclasses.fields(RunRecord)}
    needed = [
        name
        for name, field in fields.items()
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]
    lacking = [name for name in needed if name not in document]
    if lacking:
        raise documents.not_as_needed(path, f"a document without {', '.join(lacking)}")
    _check_digest(path, document)
    for name, hint in typing.get_type_hints(RunRecord).items():
        if name in document and not _is_a(document[name], hint):
            raise documents.not_as_written(path, f"{name}: {document[name]!r}")
    known = {name: value for name, value in document.items() if name in fields}
    return RunRecord(**known | {"config": _with_later_keys(known["config"])})


# What runs did before the config had these keys: their records and checkpoints lack them.
LATER_KEYS: Values = {
    "init": {"source": "", "without": []},
    "loss": {"name": ""},
    "observers": [],
    "evaluation.metrics": [],
    "train.frozen": [],
    "train.remat": [],
    "train.patience": 0,
}
_LATER_IN_OPTIMIZER: Values = {"matrices": ["*kernel"], "rates": [], "sparse": "auto"}


def _with_later_keys(config: Values) -> Values:
    """The config of a run with all keys of today, so that an older run goes on and is exported."""
    if not {"evaluation", "optimizer", "train"} <= config.keys():
        return config  # no whole one
    lacking = {key: value for key, value in LATER_KEYS.items() if not _has(config, key)}
    return with_values(config, {**lacking, "optimizer": optimizer_of_today(config["optimizer"])})


def optimizer_of_today(optimizer: Values) -> Values:
    """This section with all keys of today. A part of the run once counted before a warm-up in steps."""
    is_older, has_part = "matrices" not in optimizer, optimizer.get("warmup_part")
    steps = {"warmup_steps": 0} if is_older and has_part else {}
    return {**_LATER_IN_OPTIMIZER, **optimizer, **steps}


def _has(config: Values, key: str) -> bool:
    group, _, name = key.partition(".")
    return group in config and (not name or name in config[group])


def write(path: pathlib.Path, record: RunRecord) -> None:
    documents.write(path, dataclasses.asdict(record))


def digests(workdir: pathlib.Path, *more: str) -> dict[str, str]:
    """Returns `RunRecord.files` for the files that are there now; `more` names further files."""
    names = (*_VOUCHED_FOR, *more)
    return {name: files.sha256(workdir / name) for name in names if (workdir / name).exists()}


def check_files(workdir: pathlib.Path, record: RunRecord) -> None:
    """Raises InputError if a file is not the one that the run wrote; a file may be missing."""
    if (workdir / _DAMAGED).exists():
        require_left_out(workdir, record)
    for name, expected in record.files.items():
        if name == _DAMAGED:
            continue
        path = workdir / name
        found = files.sha256(path) if path.is_file() else expected
        if found != expected:
            raise documents.not_as_written(
                path,
                f"SHA-256 {found[:12]}…",
                expected=f"{expected[:12]}…, as the training run wrote it",
                then="writes it again",
            )


def require_left_out(workdir: pathlib.Path, record: RunRecord) -> None:
    """Raises InputError unless the list of records that the run leaves out is there as the run wrote it.

    The order of rows depends on it, so nothing else can take its place.
    """
    path, expected = workdir / _DAMAGED, record.files.get(_DAMAGED)
    if expected and not path.is_file():
        raise documents.not_as_needed(path, "no such file")
    if expected and (found := files.sha256(path)) != expected:
        raise documents.not_as_needed(path, f"SHA-256 {found[:12]}…")


def _check_digest(path: pathlib.Path, document: Mapping) -> None:
    try:
        documents.check(document)
    except ValueError as error:
        raise documents.not_as_written(path, f"other content than was written ({error})") from None


def _is_a(value: object, hint: object) -> bool:
    """Whether a value of JSON is what an annotation says: a list for a tuple, a dict for a mapping."""
    origin, of = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        return any(_is_a(value, one) for one in of)
    if origin is tuple:
        return isinstance(value, list) and all(_is_a(each, of[0]) for each in value)
    if origin is Mapping:
        return isinstance(value, dict) and all(_is_a(each, of[1]) for each in value.values())
    if hint is float:
        return type(value) in (int, float) and abs(value) < math.inf
    return hint is object or type(value) is hint  # not isinstance, for which true is an int
