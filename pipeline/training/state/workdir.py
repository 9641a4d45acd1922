"""The working directory of a training run: the names of its files."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping

from pipeline.base import documents, files
from pipeline.base.cli import flags
from pipeline.base.errors import InputError
from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.schema import schema as schema_lib


def _entry(name: str) -> property:
    """Returns a property: the path of the entry with this name in the directory."""
    return property(lambda workdir: workdir.path / name)


@dataclasses.dataclass(frozen=True)
class Workdir:
    """Paths of the files that a run keeps."""

    path: pathlib.Path

    checkpoints = _entry("checkpoints")
    summaries = _entry("summaries")
    trace = _entry("trace")  # the recording of `--profile_steps`, for xprof
    run = _entry("run.json")  # config, dataset, strategy, precision and versions of the run
    history = _entry("history.jsonl")  # one line of JSON for each log point
    goodput_log = _entry("ledger.jsonl")  # wall time by kind, over all processes
    evaluation = _entry("evaluation.json")
    baselines = _entry(
        "baselines.json"
    )  # what simple models answer there; absent: not asked for, or none fits
    worst = _entry("worst.json")  # the pictures with the largest losses there; absent: no model of pictures
    observers = _entry("observers")  # what those of config.observers must know after a kill
    schema = _entry(schema_lib.FILE_NAME)
    statistics = _entry(manifest_lib.STATISTICS_FILE_NAME)  # statistics from which preprocessing was built
    # Statistics of the dataset, if `statistics` are those of the run that gave this one its weights.
    dataset_statistics = _entry("dataset_statistics.pb")
    damaged = _entry("damaged.json")  # records that the run leaves out from its start; absent: there are none
    keras_file = _entry("model.keras")  # a copy of the `.keras` file that the model is built from
    golden = _entry("golden.tfrecord")  # a few records whose predictions every checkpoint holds

    # All first weights of the run, if config.init.source gave some of them: see first_weights.py.
    first_weights = _entry("start/variables.index")

    @property
    def start(self) -> "Workdir":
        """Files of the run that gave this one its weights (see start.py); absent if no run did."""
        return Workdir(self.path / "start")

    def scan(self, worker: int) -> pathlib.Path:
        """The findings of a worker that compared all records. Each worker has a file, because each may have
        its own disk.
        """
        return self.path / (f"scan-{worker}.json" if worker else "scan.json")


def existing(directory: pathlib.Path) -> Workdir:
    """The working directory of a run, with an absolute path; raises InputError if it has no run.json."""
    workdir = Workdir(flags.absolute(directory))
    if not workdir.run.exists():
        raise no_run(workdir.path, "a directory without run.json")
    return workdir


def no_run(directory: pathlib.Path, received: str) -> InputError:
    """The error for a directory that holds no trained run."""
    return InputError(
        f"--workdir={directory}",
        received=received,
        expected="the working directory of a training run",
        action="Train first: `python -m pipeline.train --workdir=…`.",
    )


def numbers(found: Mapping, *, prefix: str = "") -> dict[str, float]:
    """Returns the floats among the values of an evaluation or of a point of the history, by name."""
    return {f"{prefix}{name}": value for name, value in found.items() if isinstance(value, float)}


def read_json(path: pathlib.Path, *, is_needed: bool = False) -> dict | None:
    """Reads a document; None if there is no such file. Raises InputError if it is not a JSON object.

    Args:
      is_needed: whether the run cannot go on without the file.
    """
    try:
        document = json.loads(files.read_bytes(path))
        if not isinstance(document, dict):
            raise ValueError(f"{type(document).__name__} in place of an object")
        return document
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        received = f"invalid JSON ({error})"
        if is_needed:
            raise documents.not_as_needed(path, received) from None
        raise documents.not_as_written(path, received) from None


# --- history.jsonl: one line of JSON for each log point, with a checksum, so that a damaged line is noticed.


# Fields that measure the machine: they differ between runs that are equal otherwise.
MEASURED = (
    *("examples_per_s", "step_ms", "step_p50_ms", "step_p95_ms", "step_max_ms", "input_wait"),
    *("gflops_per_s", "mfu", "host_peak_mb", "device_peak_mb", documents.CHECKSUM),
)
_WITHOUT = "the curves of before"


def append_history(path: pathlib.Path, point: Mapping) -> None:
    documents.append_line(path, point)


def keep_history_up_to(path: pathlib.Path, step: int) -> None:
    """Drops what was logged after `step`, and a last line that a kill cut short.

    Raises:
      InputError: a line is damaged, or the line of `step` is missing although there are others.
    """
    points = read_history(path)
    kept = [point for point in points if point["step"] <= step]
    # A step is logged before it is saved, so the line of a checkpoint's step is always there.
    if step and points and (not kept or kept[-1]["step"] != step):
        received = f"no line of step {step:,}, of which there is a checkpoint"
        raise documents.damaged_lines(path, received, without=_WITHOUT)
    documents.replace_lines(path, kept)


def read_history(path: pathlib.Path) -> list[dict]:
    """The log points of all whole lines; raises InputError where one is damaged."""
    return documents.read_lines(path, checked=_with_step, without=_WITHOUT)


def _with_step(point: dict) -> dict:
    return {**point, "step": int(point["step"])}
