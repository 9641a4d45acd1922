"""Exports the model of a training run as a SavedModel that needs nothing but TensorFlow.

  python -m pipeline.export --workdir=runs/census --output=exports/census/1

The export holds two signatures with clean-up and preprocessing inside: `serving_default` takes serialized
tf.train.Examples (`examples`: string[batch]), `raw` takes each input feature as a named tensor. Outputs are
float32. Before the directory appears, a fresh process replays a golden batch through both and must get the
same bits as the graph in memory.
"""

import pathlib
from collections.abc import Sequence

from absl import app, flags, logging

from pipeline import quiet  # noqa: F401 - before TensorFlow
from pipeline.data import whole_files
from pipeline.data.errors import answers_bad_input
from pipeline.release import saved_model
from pipeline.training import restore

_WORKDIR = flags.DEFINE_string("workdir", None, "Training run, as given to pipeline.train.", required=True)
_OUTPUT = flags.DEFINE_string("output", None, "New directory for the exported model.", required=True)
_JSON = flags.DEFINE_string("json", None, "File to write what was exported to, as JSON.")


@answers_bad_input
def main(argv: Sequence[str]) -> None:
    del argv
    logging.set_verbosity(logging.WARNING)  # Keras tells of its own saving otherwise
    run = restore.restore_model(pathlib.Path(_WORKDIR.value))
    output = pathlib.Path(_OUTPUT.value)
    trained = saved_model.Trained(
        model=run.model,
        preprocess=run.preprocess,
        schema=run.schema,
        statistics_path=run.workdir.statistics,
        golden_path=run.workdir.golden,
        dataset_digest=run.record["dataset_digest"],
        step=run.step,
    )
    document = saved_model.export_model(trained, output)
    if _JSON.value:
        whole_files.write_json(_JSON.value, document)
    print(f"SavedModel: {output}")
    print(f"  step {document['step']:,}; {document['parameters']:,} parameters; task {document['task']}")
    print(f"  signatures {', '.join(document['signatures'])}: replayed in a fresh process, same bits")


if __name__ == "__main__":
    app.run(main)
