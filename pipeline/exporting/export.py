"""Exports a trained model to a directory that is whole and verified, or does not exist.

The directory holds the SavedModel, its schema and statistics, a golden batch with its predictions, recorded
requests with their answers, warm-up requests for TensorFlow Serving, the model for Keras and for other
runtimes, and `export.json`, which names every file with its SHA-256.
"""

import contextlib
import dataclasses
import functools
import json
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from pipeline.base import directories, documents, files
from pipeline.base.errors import InputError
from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.dataset import records
from pipeline.data.dataset.records import MODEL_INPUTS, PREPARED, RAW
from pipeline.data.preprocessing.preprocess import Preprocess
from pipeline.data.preprocessing.requests import read_from_text
from pipeline.data.reading import parsing
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.schema import Schema
from pipeline.exporting import example_request, keras_file, replay
from pipeline.exporting import formats as formats_lib
from pipeline.exporting import requests as requests_lib
from pipeline.exporting import signatures as signatures_lib
from pipeline.exporting.formats import Golden
from pipeline.exporting.raw_inputs import raw_inputs, raw_names, renamed
from pipeline.exporting.recording import Functions, record, tolerance
from pipeline.exporting.runtimes import KERAS_FILE
from pipeline.training.experiment.restore import RestoredRun


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trained:
    """A model restored from a training run, with everything from which it was built."""

    model: keras.Model
    preprocess: Preprocess
    schema: Schema
    statistics_path: pathlib.Path
    golden_path: pathlib.Path  # a TFRecord of examples; the export must repeat their predictions
    dataset_digest: str
    step: int


def trained(run: RestoredRun) -> Trained:
    """Returns what an export needs of a training run. A model of groups is exported as one of their rows."""
    return Trained(
        model=run.model,
        preprocess=run.preprocess,
        schema=run.schema.of_rows,
        statistics_path=run.workdir.statistics,
        golden_path=run.workdir.golden,
        dataset_digest=run.record.dataset_digest,
        step=run.step,
    )


def export_model(
    trained: Trained,
    output: pathlib.Path,
    *,
    examples: Sequence[bytes] | None = None,
    formats: Sequence[str] = (),
    begins: Callable[[str], None] = lambda _: None,
) -> dict:
    """Writes and verifies the export at `output`; returns the content of `export.json`.

    Args:
      examples: serialized examples of the recorded requests (see pipeline/exporting/requests.py); they need
        no label. None: the golden ones.
      formats: names of RUNTIMES; the export holds a file for each.
      begins: receives the name of each part before it is done, which may take a minute.

    Raises:
      InputError: `output` exists, a fresh process computes other predictions from the export, or the model
        cannot be converted to a format.
    """
    records.check_new(output)
    staging = output.with_name(f".{output.name}.staging")
    staging.mkdir(parents=True, exist_ok=True)
    held = files.hold_directory(staging, thing=f"--output={output}")
    with held, directories.staged(staging), fresh_process(staging) as replayed:
        records.check_new(output)  # again: an export that held it may just have ended
        converted = _write(trained, staging, examples, formats, begins)
        begins("the file for Keras")
        refusal = keras_file.save(trained.model, staging)
        begins("replay in a fresh process")
        in_keras = _kept_if_it_loads(replayed(), refusal, staging)
        document = _write_contents(trained, staging, {"keras": in_keras, **converted})
        directories.rename(staging, output)
    return document


@contextlib.contextmanager
def fresh_process(directory: pathlib.Path) -> Iterator[Callable[[], dict]]:
    """Starts a Python process, which imports TensorFlow while this one writes the export to `directory`.

    Yields a function () → what the process, which replays the export now, found of `model.keras`. It raises
    InputError where the process does not get the golden predictions, bit for bit.
    """
    command = [sys.executable, "-m", replay.__name__, str(directory)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    try:
        yield functools.partial(_replayed, process)
    finally:
        process.kill()  # one that has ended, too
        process.communicate()


def _replayed(process: subprocess.Popen) -> dict:
    output, errors = process.communicate()  # closes its stdin, which it waits for
    if process.returncode:
        last_line = (errors.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
        raise InputError(
            "export",
            received=last_line.removeprefix("error: "),
            expected="the same predictions from a fresh process as from the graph in memory",
            action="Do not use this model; nothing was written. Please report this with the schema.",
        )
    return json.loads(output.splitlines()[-1])


def _kept_if_it_loads(found: dict, refusal: str, directory: pathlib.Path) -> dict:
    """Removes `model.keras` where it did not pass the replay. Returns what export.json says of it.

    Args:
      found: by the replay.
      refusal: why Keras did not save it; empty: it did.
    """
    if refusal:
        return {"left_out": refusal}
    if "left_out" in found:
        (directory / KERAS_FILE).unlink()
    return found


def _write(
    trained: Trained,
    directory: pathlib.Path,
    examples: Sequence[bytes] | None,
    formats: Sequence[str],
    begins: Callable[[str], None],
) -> dict[str, dict]:
    """Writes all files but `model.keras`; returns what export.json says about those in other formats."""
    begins("the SavedModel")
    functions = signatures_lib.signatures(trained.model, trained.preprocess, trained.schema)
    archive = keras.export.ExportArchive()
    archive.track(trained.model)
    archive.track(trained.preprocess)
    for name, function in functions.items():
        archive.add_endpoint(name, function)
    # For the temporary files of AutoGraph, which rewrites functions of TensorFlow's own.
    with _scratch(directory):
        archive.write_out(str(directory), verbose=False)
    schema_lib.save(trained.schema, directory / schema_lib.FILE_NAME)
    shutil.copyfile(trained.statistics_path, directory / manifest_lib.STATISTICS_FILE_NAME)
    shutil.copyfile(trained.golden_path, directory / replay.GOLDEN_EXAMPLES)
    begins("golden predictions and requests")
    _write_golden(functions[records.SERVING_DEFAULT], directory)
    _write_requests(trained, functions, directory, examples)
    if not formats:
        return {}
    begins(f"files for {', '.join(formats)}")
    with _scratch(directory) as scratch:
        return formats_lib.write(
            formats,
            directory,
            model=trained.model,
            preprocess=trained.preprocess,
            schema=trained.schema,
            golden=_golden(trained, functions, directory),
            scratch=scratch,
        )


def _golden(trained: Trained, functions: Functions, directory: pathlib.Path) -> Golden:
    spec = parsing.parsing_spec(trained.schema, with_label=False)
    raw = raw_inputs(tf.io.parse_example(replay.golden_examples(directory), spec), trained.schema)
    inputs = {RAW: raw, PREPARED: functions[MODEL_INPUTS](raw)}
    return Golden(
        inputs={signature: requests_lib.numpy_arrays(each) for signature, each in inputs.items()},
        predictions=replay.golden_predictions(directory),
        tolerance=tolerance(trained.model),
    )


def _write_golden(serve: Callable[[tf.Tensor], Mapping[str, tf.Tensor]], directory: pathlib.Path) -> None:
    replay.save_golden_predictions(serve(replay.golden_examples(directory)), directory)


def _write_requests(
    trained: Trained, functions: Functions, directory: pathlib.Path, examples: Sequence[bytes] | None
) -> None:
    """Writes requests with the answers of the graphs in memory, and TensorFlow Serving's warm-up."""
    golden = replay.golden_examples(directory)
    inputs = golden if examples is None else tf.constant(np.array(examples, object), tf.string)
    requests = record(functions, inputs, schema=trained.schema, model=trained.model)
    requests_lib.save(requests, directory)
    requests_lib.write_warmup(requests, directory)
    example_request.save(requests, directory)


@contextlib.contextmanager
def _scratch(directory: pathlib.Path) -> Iterator[pathlib.Path]:
    """Keeps temporary files in a folder of `directory`, and removes it afterwards."""
    scratch = directory / "scratch"
    scratch.mkdir()
    try:
        with files.temporary_files_in(scratch):
            yield scratch
    finally:
        shutil.rmtree(scratch)


def _read_from_text(schema: Schema) -> list[str]:
    """Returns the names in `raw` of numbers and dates that come as text."""
    names = raw_names(schema)
    return [names[feature.name] for feature in read_from_text(schema)]


def _write_contents(trained: Trained, directory: pathlib.Path, formats: dict[str, dict]) -> dict:
    document = {
        "format": records.FORMAT,
        "step": trained.step,
        "task": trained.schema.label.task,
        "classes": list(trained.schema.label.classes),
        "parameters": trained.model.count_params(),
        "dataset_digest": trained.dataset_digest,
        "signatures": [records.SERVING_DEFAULT, RAW, records.MODEL_INPUTS, PREPARED],
        "raw_inputs": signatures_lib.raw_inputs_declared(trained.schema),
        **({"read_from_text": texts} if (texts := _read_from_text(trained.schema)) else {}),
        "formats": formats,
        **({"renamed_in_raw": others} if (others := renamed(trained.schema)) else {}),
        "files": {name: each["sha256"] for name, each in directories.listed(directory).items()},
    }
    document = documents.with_digest(document)
    directories.commit(directory, records.FILE_NAME, documents.dumps(document))
    return document
