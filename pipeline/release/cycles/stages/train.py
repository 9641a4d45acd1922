"""TRAIN: pipeline.train in a process of its own; a killed one goes on from its checkpoint."""

import json

from pipeline.release.cycles import children
from pipeline.release.cycles.settings import CHAMPION
from pipeline.release.cycles.stages.job import Job


def train(job: Job) -> dict:
    """What the run's last evaluation says. Raises as `children.run`."""
    config = job.settings.config.train
    metrics = job.folder / "metrics.json"
    children.run(
        (
            job.settings.commands.train,
            f"--config={config.config}",
            *(f"--dataset={directory}" for directory in job.directories("training")),
            f"--workdir={job.run}",
            f"--json={metrics}",
            *warm_start(job),
            *config.flags,
        ),
        job.folder / "train.log",
    )
    return {"metrics": json.loads(metrics.read_text())}


def warm_start(job: Job) -> list[str]:
    """The flag that begins from the champion's weights where the config says so and there is a champion."""
    cycle = job.plan["champion"].get("cycle")
    is_warm = job.settings.config.train.start == CHAMPION and cycle
    return [f"--warm_start={job.root.cycle(cycle) / 'run'}"] if is_warm else []
