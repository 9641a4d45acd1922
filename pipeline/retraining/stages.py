"""The stages of a cycle from DATA to INFRA: what is trained, exported, evaluated and checked."""

import json
import pathlib

import numpy as np

from pipeline.base.errors import InputError, TryAgainError, shortage
from pipeline.data.dataset import records
from pipeline.data.dataset.selection import select
from pipeline.data.dataset.statistics import SplitStatistics
from pipeline.data.schema.feature_types import Label
from pipeline.exporting import requests as requests_lib
from pipeline.gate.scores import NEXT_TOKEN, RANKING
from pipeline.retraining import children, holdout
from pipeline.retraining import overlap as overlap_lib
from pipeline.retraining import parity as parity_lib
from pipeline.retraining.job import Job, Part
from pipeline.retraining.settings import CHAMPION
from pipeline.serving import check
from pipeline.serving.child import KILLED
from pipeline.serving.result import InfraResult
from pipeline.training.experiment.restore import restore_model

# --- DATA: checks that the datasets are those of the plan, and that training has not seen the holdout.


def data(job: Job) -> dict:
    """Checks the datasets; returns rows and digests of both parts, and their overlap.

    Raises:
      InputError: a dataset is damaged or not the one in the plan, or training has seen the holdout.
    """
    _check_planned(job)
    overlap = overlap_lib.overlap(
        job.training.dataset, job.training.split, job.holdout.dataset, job.holdout.split
    )
    overlap_lib.require_disjoint(overlap, most=job.settings.holdout.most_seen)
    return {
        "training": _summary(job.training),
        "holdout": _summary(job.holdout),
        "overlap": {"rows": overlap.seen, "fraction": overlap.fraction},
    }


def _check_planned(job: Job) -> None:
    """Raises InputError where a span's dataset has another digest than in the plan."""
    planned = {span["name"]: span["dataset_digest"] for span in job.plan["spans"]}
    for part in (job.training, job.holdout):
        for member in part.dataset.published:
            name = member.directory.parent.name
            if member.manifest.digest != planned[name]:
                raise InputError(
                    f"dataset {member.directory}",
                    received=f"digest {member.manifest.digest[:12]}",
                    expected=f"digest {planned[name][:12]}, as the plan of cycle {job.id} has it",
                    action="Restore it from a copy; or delete it and its .json, to convert it again.",
                )


def _summary(part: Part) -> dict:
    dataset = part.dataset
    return {
        "split": part.split,
        "dataset_digest": dataset.manifest.digest,
        "spans": len(dataset.published),
        "rows": {split: dataset.rows(split) for split in part.split.split("+")},
    }


# --- TRAIN: pipeline.train in a process of its own, which continues from its checkpoint.


def train(job: Job) -> dict:
    """Trains; returns the metrics of the last evaluation. Raises as `children.run`."""
    config = job.settings.train
    metrics = job.folder / "metrics.json"
    children.run(
        (
            job.settings.commands.train,
            f"--config={config.config}",
            *(f"--dataset={directory}" for directory in job.directories("training")),
            f"--workdir={job.run}",
            f"--json={metrics}",
            "--nobaseline",  # the gate compares with the champion
            *warm_start(job),
            *config.flags,
        ),
        job.folder / "train.log",
    )
    return {"metrics": json.loads(metrics.read_text())}


def warm_start(job: Job) -> list[str]:
    """Returns the flag to start from the champion's weights, if the config says so and there is one."""
    cycle = job.plan["champion"].get("cycle")
    is_warm = job.settings.train.start == CHAMPION and cycle
    return [f"--warm_start={job.root.cycle(cycle) / 'run'}"] if is_warm else []


# --- EXPORT: pipeline.export in a process of its own.


def export(job: Job) -> dict:
    """Exports; returns digest, step and size of the model. Raises as `children.run`."""
    if not (job.export / records.FILE_NAME).exists():
        command = [job.settings.commands.export, f"--workdir={job.run}", f"--output={job.export}"]
        if formats := job.settings.export.formats:
            command.append(f"--format={','.join(formats)}")
        children.run(command, job.folder / "export.log")
    document = records.open_export(job.export)
    return {
        "export_digest": document["digest"],
        "step": document["step"],
        "parameters": document["parameters"],
        "task": document["task"],
    }


# --- EVALUATE: challenger, champion and anchor answer every row of the holdout.


def evaluate(job: Job) -> dict:
    """Saves the answers of all models; raises InputError where one cannot read the holdout's records."""
    gate = job.settings.gate
    answers = holdout.score(
        job.models(),
        job.holdout.dataset,
        split=job.holdout.split,
        weighted_by=job.settings.holdout.weighted_by,
        clustered_by=gate.clustered_by,
        slices=gate.slices,
    )
    answers.save(job.answers)
    return {"models": sorted(job.models()), "rows": len(answers.labels), "holdout_digest": answers.digest}


# --- PARITY: checks that the export decides as the run does, on rows of the holdout.


def parity(job: Job) -> dict:
    """Returns a ParityResult as JSON. Raises InputError where the export or a record is damaged."""
    holdout = select(job.holdout.dataset, job.holdout.split)
    # This takes the checkpoint that was exported: where a run keeps its best one, that may not be the last.
    run = restore_model(job.run, checkpoint=f"{records.open_export(job.export)['step']}")
    result = parity_lib.parity(run, job.export, holdout, limits=job.settings.parity)
    return dict(result.to_json())


# --- INFRA: checks that a fresh process serves the export as recorded, fast and small enough compared with
# the champion.


def infra(job: Job) -> dict:
    """Returns an InfraResult as JSON."""
    champion = job.models().get("champion")
    return dict(check_serving(job, job.export, against=champion).to_json())


def check_serving(job: Job, directory: pathlib.Path, *, against: pathlib.Path | None) -> InfraResult:
    """Checks a version directory in a fresh process, with the requests of the cycle's export.

    Raises:
      TryAgainError: memory ran out, although the config sets no limit that a model could exceed.
    """
    limits = job.settings.infra
    result = check.check(directory, requests_lib.load(job.export), against=against, limits=limits)
    for reason in result.reasons:
        if KILLED in reason or (limits.process_mib is None and shortage(RuntimeError(reason))):
            raise TryAgainError(
                f"the infra check of {directory}",
                received=reason,
                expected="a process that ends by itself",
                action="Give the machine more memory, or run less beside it; the same command goes on.",
            )
    return result


# --- The prior, which a first model must beat: a prediction that uses only the labels of training.


def prior_of(statistics: SplitStatistics, label: Label) -> float | np.ndarray | None:
    """Returns the share of the positive class, the shares of all classes or items, or the mean; None if
    unknown, and for groups and tokens.

    An item that no row chose counts as chosen once. Several targets have a mean each. A multilabel in one
    column has the share of the rows that have each class; in several columns it is unknown.

    Args:
      statistics: statistics of the training rows.
    """
    if label.task in (RANKING, NEXT_TOKEN):
        return None
    if len(label.parts) > 1:
        found = [statistics.features[name].numeric for name in label.parts]
        return None if None in found else np.array([each.mean for each in found])
    measured = statistics.features[label.name]
    if label.task == "regression":
        return measured.numeric.mean if measured.numeric else None
    if measured.values is None or not measured.values.complete:
        return None
    known = dict(measured.values.values)  # holds only classes that occur
    counts = np.array([known.get(name, 0) for name in label.classes], np.float64)
    if label.shape:
        return counts / measured.present if measured.present else None
    if not counts.sum():
        return None
    if label.is_retrieval:
        counts = np.maximum(counts, 1.0)
    shares = counts / counts.sum()
    return float(shares[1]) if label.task == "binary" else shares
