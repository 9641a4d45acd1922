"""Reads what the report shows. Missing or half-written parts are left out, never guessed."""

import dataclasses
import itertools
import json
import math
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from pipeline.base import files
from pipeline.base.errors import InputError
from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.dataset import records, window
from pipeline.data.dataset import statistics as statistics_lib
from pipeline.data.dataset.manifest import Manifest
from pipeline.data.dataset.statistics import Statistics
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.schema import Schema
from pipeline.training.state import goodput
from pipeline.training.state.workdir import Workdir

_MAX_REJECTED_READ = 2_000  # lines that are read; the report shows a few examples for each reason


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReportInputs:
    """Everything that is known about one training run; empty where it is not known yet."""

    workdir: pathlib.Path
    run: Mapping
    history: tuple[Mapping, ...]
    goodput_log: tuple[Mapping, ...]  # where the time went
    evaluation: Mapping
    baselines: Mapping  # what simple models answer on the same split
    worst: tuple[Mapping, ...]  # the pictures with the largest losses on it
    damaged: Mapping  # records that the run left out
    conversion: Mapping  # empty where several datasets were read
    documents: int | None  # in rows of packed text; None where rows hold none, or it is not known
    rejected: tuple[Mapping, ...]
    manifest: Manifest | None
    schema: Schema | None
    statistics: Statistics
    problems: tuple[str, ...]  # reasons why parts of the dataset could not be read

    @property
    def given(self) -> tuple[int, str]:
        """How many rows were given, and the word for them, as `convert` counts: documents of packed text."""
        if self.manifest is None:
            return 0, "rows"
        if self.documents is None:
            return self.manifest.rows_read, "rows"
        return self.documents + self.manifest.rows_rejected, "documents"


def read_inputs(workdir: pathlib.Path) -> ReportInputs:
    """Reads everything that the run in `workdir` and its dataset hold now."""
    files = Workdir(workdir)
    run = _read_object(files.run)
    first, *others = directories = _directories(run, otherwise=workdir / "no-dataset")
    problems: list[str] = []
    conversions = [_attempt(records.read_conversion, [each], problems) or {} for each in directories]
    return ReportInputs(
        workdir=workdir,
        run=run,
        history=tuple(line for line in _read_lines(files.history) if "step" in line),
        goodput_log=tuple(_attempt(goodput.read_goodput, [files.goodput_log], problems) or ()),
        evaluation=_read_object(files.evaluation),
        baselines=_read_object(files.baselines),
        worst=tuple(_read_object(files.worst).get("pictures", ())),
        damaged=_read_object(files.damaged),
        conversion={} if others else conversions[0],
        documents=_documents(conversions),
        rejected=tuple(itertools.islice(_rejected(directories), _MAX_REJECTED_READ)),
        manifest=_attempt(window.load_manifest, [directories], problems),
        schema=_attempt(schema_lib.load, [first / schema_lib.FILE_NAME, files.schema], problems),
        statistics=_attempt(
            _statistics,
            # For several datasets, only the run has the statistics: in `dataset_statistics` if it began with
            # the weights and `statistics` of another run, else in `statistics`.
            [
                *([] if others else [first / manifest_lib.STATISTICS_FILE_NAME]),
                files.dataset_statistics if files.dataset_statistics.exists() else files.statistics,
            ],
            problems,
        )
        or {},
        problems=tuple(problems),
    )


def _directories(run: Mapping, *, otherwise: pathlib.Path) -> list[pathlib.Path]:
    """Returns the directories of the datasets that `--dataset` named, at least one."""
    spans = [span.get("directory") for span in run.get("spans") or ()]
    return [pathlib.Path(each or otherwise) for each in spans or [run.get("dataset")]]


def _documents(conversions: Sequence[Mapping]) -> int | None:
    """Sums the documents of all datasets; None where one does not tell them."""
    texts = [conversion.get("texts") for conversion in conversions]
    if not all(texts):
        return None
    return sum(counts.get("documents", 0) for splits in texts for counts in splits.values())


def _rejected(directories: Sequence[pathlib.Path]) -> Iterator[Mapping]:
    for directory in directories:
        yield from _read_lines(directory / manifest_lib.REJECTED_FILE_NAME)


def _statistics(path: pathlib.Path) -> Statistics:
    """Statistics of a dataset, checked against its manifest, or of a run."""
    if not (path.parent / manifest_lib.FILE_NAME).exists():
        return statistics_lib.read(path)
    manifest = manifest_lib.load(path.parent)
    return statistics_lib.loads(manifest_lib.published_bytes(path.parent, manifest, path.name))


def _attempt(read: Callable, paths: Sequence, problems: list[str]) -> object | None:
    """Returns what `read` gives for the first readable path. If there is none, returns None and adds the
    first problem.
    """
    first: str | None = None
    for path in paths:
        try:
            return read(path)
        except InputError as error:
            first = first or str(error)
    problems.append(first or "")
    return None


def _read_object(path: pathlib.Path) -> Mapping:
    try:
        document = json.loads(files.read_bytes(path))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _read_lines(path: pathlib.Path) -> Iterator[Mapping]:
    """JSON objects, one on each line. A line that a kill cut short is skipped."""
    try:
        lines = path.open(encoding="utf-8", errors="replace")
    except OSError:
        return
    with lines:
        for line in lines:
            try:
                document = json.loads(line)
            except ValueError:
                continue
            if isinstance(document, dict):
                yield document


def curve(history: tuple[Mapping, ...], key: str, *, validation: bool = False) -> tuple[list, list]:
    """Steps and values of one metric; NaN for a value that is not a number. Empty if it was never logged."""
    steps, values = [], []
    for line in history:
        source = (line.get("validation") or {}) if validation else line
        if key in source:
            steps.append(float(line["step"]))
            values.append(as_float(source[key]))
    return steps, values


def as_float(value: object) -> float:
    """The value as a number; NaN if it is not one."""
    return float(value) if isinstance(value, int | float) else math.nan
