"""What is damaged: a dataset, a run on it, and an export of that run, with the commands that read each."""

import json
import pathlib
import shutil
from fractions import Fraction

import numpy as np
import pyarrow.parquet as pq
from ml_collections import ConfigDict

from beam_jobs.checks import findings
from beam_jobs.checks.dataset import verify
from beam_jobs.checks.validate import Rules
from beam_jobs.conversion.job import Conversion, convert
from beam_jobs.conversion.plan import make_plan
from beam_jobs.inference.job import Prediction, open_export
from beam_jobs.launch.run import Run, run_job
from beam_jobs.sources.formats import open_source
from beam_jobs.sources.source import Input
from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import open_dataset
from pipeline.exporting import export, replay, scoring
from pipeline.training.experiment import restore
from pipeline.training.run import run
from pipeline.training.run.request import Request
from pipeline.training.state import workdir as workdir_lib
from tests.flips.flip import Subject
from tests.pipeline.training.small_run import SCHEMA, rows, small_config
from tests.shared.parsed import parsed

STEPS, LONGER = 8, 12  # of the run, and of what it is made longer to
_EPOCH = 4  # steps: every checkpoint lies at an end of one, so that a run from an older one logs the same
_TRAIN_ROWS = 216
_RUN = Run(runner="FnApiRunner", beam_flags=(), max_rejected_fraction=0.5)


def make(folder: pathlib.Path) -> tuple[Subject, ...]:
    """Makes all three in `folder`."""
    data, workdir, model = folder / "tiny" / "1.0.0", folder / "run", folder / "model"
    _convert(folder, data)
    train(data, workdir, steps=_EPOCH)
    train(data, workdir, steps=STEPS)
    _export(workdir, model)
    return (
        Subject(
            name="dataset",
            directory=data,
            commands={
                "verify": verified,
                "train": lambda copy: train(copy, _fresh(folder / "fresh"), steps=2),
                "evaluate": lambda copy: scored(model, copy),
            },
        ),
        Subject(
            name="export",
            directory=model,
            commands={
                "evaluate": lambda copy: scored(copy, data),
                "predict": lambda copy: predicted(copy, folder),
            },
        ),
        Subject(
            name="run",
            directory=workdir,
            commands={
                "train, finished": lambda copy: train(data, copy, steps=STEPS),
                "train, longer": lambda copy: train(data, copy, steps=LONGER),
                "export": lambda copy: _export(copy, _fresh(folder / "exported")),
            },
            gives_way=("export",),  # to the checkpoint before
        ),
    )


def config(steps: int) -> ConfigDict:
    """Of a run of so many steps, which may be made longer."""
    small = small_config()
    small.optimizer.schedule, small.optimizer.warmup_steps = "constant", 0
    small.global_batch = _TRAIN_ROWS // _EPOCH
    small.train.steps, small.train.checkpoint_every_steps = steps, _EPOCH
    return small


def train(data: pathlib.Path, workdir: pathlib.Path, *, steps: int) -> object:
    """Metrics, history without times, and whether run.json says that the run is finished."""
    request = Request(
        experiment=parsed(config(steps)),
        dataset=open_dataset(data),
        workdir=workdir,
        strategy="one_device",
        precision="float32",
    )
    metrics = run.train(request)
    lines = [json.loads(line) for line in (workdir / "history.jsonl").read_text().splitlines()]
    record = json.loads((workdir / "run.json").read_text())
    return (
        metrics,
        [{key: value for key, value in line.items() if key not in workdir_lib.MEASURED} for line in lines],
        {key: record[key] for key in ("config", "dataset_digest", "steps", "total_steps", "finished")},
    )


def verified(data: pathlib.Path) -> object:
    """What verify found; raises InputError that names the damaged files."""
    found = verify(data)
    if found.problem_count:
        raise InputError(
            ", ".join(problem.file for problem in found.problems),
            received="damage",
            expected="none",
            action="",
        )
    return findings.dumps(findings.to_json(found, None, None))


def scored(model: pathlib.Path, data: pathlib.Path) -> object:
    """The metrics of an export."""
    result = scoring.score(model, open_dataset(data), split="test", batch=32)
    return {key: value for key, value in result.items() if key not in ("model", "dataset")}


def predicted(model: pathlib.Path, folder: pathlib.Path) -> object:
    """What an export says of the raw data."""
    output, source = _fresh(folder / "predictions"), open_source("csv")
    input_splits = source.input_splits([Input(location=str(folder / "data.csv"))])
    job = Prediction(
        source=source,
        input_splits=input_splits,
        exported=open_export(model),
        batch=64,
        file_format="parquet",
        run=_RUN,
    )
    document = run_job(job, output=str(output))
    (file,) = output.glob("*.parquet")
    return document["model_digest"], pq.read_table(file).to_pydict()


def _export(workdir: pathlib.Path, output: pathlib.Path) -> object:
    """What the export says of its golden records, and its `export.json` but for digests of graphs."""
    export.replay_in_fresh_process = replay.replay  # a fresh process takes seconds
    restored = restore.restore_model(workdir)
    print("".join(f"warning    {each}\n" for each in restored.damaged))
    document = export.export_model(export.trained(restored), output)
    golden = {name: array.tolist() for name, array in np.load(output / replay.GOLDEN_PREDICTIONS).items()}
    kept = (path for path in sorted(output.iterdir()) if path.suffix in (".json", ".tfrecord"))
    contents = [path.read_bytes() for path in kept if path.name != "export.json"]
    plain = {key: value for key, value in document.items() if key not in ("files", "digest")}
    return plain, golden, contents


def _convert(folder: pathlib.Path, data: pathlib.Path) -> None:
    lines = [
        f"{row['x']},{row['y']},{row['kind']},{('no', 'yes')[row['positive']]}" for row in rows(300, seed=0)
    ]
    (folder / "data.csv").write_text("\n".join(["x,y,kind,positive", *lines, "far,0,a,no", ""]))
    inputs, source = [Input(location=str(folder / "data.csv"))], open_source("csv")
    fractions = {"train": Fraction(7, 10), "validation": Fraction(1, 10), "test": Fraction(2, 10)}
    plan = make_plan(inputs, source, SCHEMA, fractions=fractions, shard_bytes=4000)
    job = Conversion(
        source=source,
        schema=SCHEMA,
        plan=plan,
        rules=Rules(),
        run=_RUN,
        command="python -m beam_jobs.convert",
    )
    convert(job, output=str(data))


def _fresh(directory: pathlib.Path) -> pathlib.Path:
    shutil.rmtree(directory, ignore_errors=True)
    return directory
