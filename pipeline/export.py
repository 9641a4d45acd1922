"""Exports the model of a training run as a SavedModel that needs nothing but TensorFlow.

  python -m pipeline.export --workdir=runs/census --output=exports/census/1

The export predicts by two signatures with clean-up and preprocessing inside: `serving_default` takes
serialized tf.train.Examples (`examples`: string[batch]), `raw` takes each input feature as a named tensor.
Outputs are float32. Two more signatures are the two halves of `raw`: `model_inputs` takes its inputs and
gives the outputs of preprocessing; `prepared` takes these and predicts. Before the directory appears, a fresh
process replays a golden batch through them and must get the same bits as the graph in memory.

Beside the SavedModel stands `model.keras`, the model without preprocessing, which Keras loads and trains on.
--format=litert,onnx adds `model.tflite` and `model.onnx` for devices and other runtimes. They compute in
float32. The runtime of each format runs it on the golden batch: its predictions must equal TensorFlow's in
float32, to 1e-5 of the largest number. If all features are numbers and the format can express it,
preprocessing is inside; else a file takes what `model_inputs` gives. A model with an operation that a format
lacks is refused. export.json says what each file takes, and how far it is from the SavedModel.

TensorFlow cannot take every name (a space, an umlaut, a Python keyword). Where it cannot, `raw` has another
name for the feature, which this command prints.
"""

if __name__ == "__main__":  # Ctrl-C may come while the imports below run
    from pipeline.base.cli import signals

    signals.handle_signals()

import pathlib
from collections.abc import Iterator, Mapping, Sequence

from absl import flags, logging

from pipeline.base import files
from pipeline.base.cli import command
from pipeline.base.cli import flags as flags_lib
from pipeline.base.cli.command import Command
from pipeline.base.cli.run import run_command
from pipeline.data.dataset import records
from pipeline.exporting import runtimes
from pipeline.training.state.workdir import existing

_WORKDIR = flags.DEFINE_string("workdir", None, "DIRECTORY: the training run, as given to pipeline.train.")
_OUTPUT = flags.DEFINE_string("output", None, "DIRECTORY: where the model goes. It must not exist.")
_CHECKPOINT = flags.DEFINE_string(
    "checkpoint",
    "",
    "best|last|STEP: the checkpoint to export. By default the best if config.train.keep_best was set, else "
    "the last.",
)
_FORMAT = flags.DEFINE_list(
    "format",
    [],
    "FORMAT,…: more files of the model, litert or onnx or both. They need `pip install -r "
    "requirements/export.txt`.",
)
_JSON = flags.DEFINE_string("json", None, "FILE: also write a summary of the export to it, as JSON.")


_LISTED = 12  # inputs that are listed
COMMAND = Command(
    name="pipeline.export",
    description=__doc__,
    required=(_WORKDIR, _OUTPUT),
    flags={"Flags": (_WORKDIR, _OUTPUT, _CHECKPOINT, _FORMAT, _JSON)},
)


def main(argv: Sequence[str]) -> None:
    del argv
    flags_lib.check_local_files({"json": _JSON.value})
    workdir = flags_lib.local_directory("workdir", _WORKDIR.value)
    existing(workdir)
    output = flags_lib.local_directory("output", _OUTPUT.value)
    records.check_new(output)
    runtimes.require(_FORMAT.value, setting="--format")
    # Imported here: TensorFlow takes seconds, and --help or a wrong flag should not.
    from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

    # isort: split
    from pipeline.exporting import export
    from pipeline.training.experiment import restore

    logging.set_verbosity(logging.WARNING)  # otherwise Keras logs its own saving
    run = restore.restore_model(workdir, checkpoint=_CHECKPOINT.value)
    for each in run.damaged:
        print(f"warning    a checkpoint is damaged, so another one is taken: {each}")
    document = export.export_model(
        export.trained(run),
        output,
        formats=_FORMAT.value,
        begins=lambda part: print(f"exporting: {part}", flush=True),
    )
    with command.announce_published(f"the export {output}"):
        if _JSON.value:
            files.write_json(_JSON.value, document)
        print(f"SavedModel: {output}")
        print(f"  checkpoint: {run.choice}")
        print(f"  {document['parameters']:,} parameters; task {document['task']}")
        print(f"  signatures {', '.join(document['signatures'])}: replayed in a fresh process, same bits")
        for line in _asking(output, document):
            print(f"  {line}")
        for name, each in document["formats"].items():
            print(f"  {_described(name, each)}")
        for name, given in document.get("renamed_in_raw", {}).items():
            print(f"  raw takes '{name}' as {given}: TensorFlow cannot take that name")


def _asking(output: pathlib.Path, document: Mapping) -> Iterator[str]:
    """Yields lines that say what `raw` takes, and how to ask the model."""
    inputs = [f"{name} {dtype}{shape[1:] or ''}" for name, (dtype, shape) in document["raw_inputs"].items()]
    yield f"raw takes {_listed(inputs)}"
    if texts := document.get("read_from_text"):
        yield f"a text in {_listed(texts)} that cannot be read counts as missing; signature 'unread' names it"
    yield "one row of the data, once `python -m demo.serve --model=…` or TensorFlow Serving runs:"
    yield f"  curl localhost:8501/v1/models/model:predict --data @{output / records.EXAMPLE_REQUEST}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{', '.join(names[:_LISTED])}{more}"


def _described(name: str, file: Mapping) -> str:
    """Returns a line about a file beside the SavedModel, as export.json describes it."""
    if "left_out" in file:
        return f"no model.{name}: {file['left_out']}"
    if name not in runtimes.RUNTIMES:
        needs = "".join(f", needs {place}" for place in file["custom_objects"].values())
        return f"{file['file']}: loaded in a fresh process{needs}"
    takes = f"takes the inputs of '{file['takes']}'"
    without = f" ({file['without_preprocessing']})" if "without_preprocessing" in file else ""
    return (
        f"{file['file']}: {takes}{without}; {file['runtime']} differs by up to "
        f"{file['largest_difference']:.2g} of the largest number from TensorFlow in float32, and by "
        f"{file['largest_difference_from_saved_model']:.2g} from the SavedModel"
    )


if __name__ == "__main__":
    run_command(main, COMMAND)
