"""A training run, from request to final metrics. Repeating a request continues what was interrupted."""

from pipeline.training import record, setup
from pipeline.training import workdir as files
from pipeline.training.record import Request
from pipeline.training.report import write_report
from pipeline.training.trainer import Trainer


def train(request: Request) -> dict:
    """Trains, evaluates and reports; returns the metrics of the final split.

    A run that was interrupted goes on from its last checkpoint; one that is finished is only reported.

    Raises:
      InputError: something in the request, the dataset or the working directory is wrong.
    """
    decided = setup.decide(request)
    before = files.read_json(decided.workdir.run)
    if before:
        record.require_same(before, decided.record)
        if before["finished"] and before["total_steps"] == decided.record["total_steps"]:
            print(f"This run is finished, at step {before['steps']:,}; nothing is left to train.", flush=True)
            write_report(decided.workdir.path)
            return files.read_json(decided.workdir.evaluation)
    return Trainer(decided).train(before)
