"""What is trained on while it changes: small datasets, and a run for each way of reading."""

import dataclasses
import pathlib
import shutil
from collections.abc import Mapping

from tests.pipeline.training.small_run import SCHEMA, rows
from tests.shared.tiny_dataset import write_dataset

_COUNTS = {"train": 4_000, "validation": 50, "test": 50}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Way:
    """How the dataset is stored and read."""

    layout: str
    shards: int
    shuffle: str
    flags: tuple[str, ...] = ()


WAYS: Mapping[str, Way] = {
    "single": Way(layout="rows", shards=2, shuffle="global"),
    "windows": Way(layout="rows", shards=2, shuffle="windows"),
    "mapped": Way(layout="blocks", shards=1, shuffle="global"),
    "copied": Way(layout="blocks", shards=2, shuffle="global"),  # what is mapped, of several small shards
    # A service prepares as many rows at once as of any batch: the larger, the fewer steps. 384 epochs end
    # with the run, whose last checkpoint is then evaluated.
    "service": Way(
        layout="rows",
        shards=2,
        shuffle="windows",
        flags=("--config.global_batch=512", "--config.evaluation.every_epochs=384"),
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    """A way of reading, with a dataset and another one of the same schema and size."""

    way: Way
    published: pathlib.Path  # is never changed
    other: pathlib.Path
    directory: pathlib.Path  # where the run finds it

    def publish(self) -> None:
        """Puts the published dataset where the run finds it, in new files."""
        shutil.rmtree(self.directory, ignore_errors=True)
        shutil.rmtree(self.directory.with_name("before"), ignore_errors=True)
        shutil.copytree(self.published, self.directory)

    def arguments(self, workdir: pathlib.Path, *flags: str) -> list[str]:
        return [
            "pipeline.train",
            "--config=tests/underfoot/config.py",
            f"--config.shuffle={self.way.shuffle}",
            f"--dataset={self.directory}",
            f"--workdir={workdir}",
            *self.way.flags,
            *flags,
        ]


def subject(name: str, folder: pathlib.Path) -> Subject:
    """Of a key of WAYS; its datasets are in `folder`."""
    way = WAYS[name]
    for number, dataset in enumerate(("published", "other")):
        if not (folder / dataset).exists():
            seeds = {split: 10 * number + i for i, split in enumerate(_COUNTS)}
            splits = {split: rows(count, seed=seeds[split]) for split, count in _COUNTS.items()}
            write_dataset(folder / dataset, SCHEMA, splits, shards=way.shards, layout=way.layout)
    return Subject(
        way=way,
        published=folder / "published",
        other=folder / "other",
        directory=folder / "dataset",
    )
