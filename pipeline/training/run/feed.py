"""Makes the feed certificate of an experiment: measures the input that its training would read."""

import dataclasses
import sys

from tqdm import tqdm

from pipeline.base.errors import InputError
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.input.stages import Recipe
from pipeline.data.input.training import training_recipe
from pipeline.data.integrity import damage
from pipeline.data.integrity.damage import listed, naming_damage
from pipeline.data.reading.plan import TrainingData, main_of, parts_of
from pipeline.data.reading.sharding import Share
from pipeline.data.statistics import loading
from pipeline.feed import measure
from pipeline.feed.certificate import Certificate, Demand, copy_to, measure_certificate
from pipeline.feed.measure import Uncached
from pipeline.feed.scaling import Slice
from pipeline.feed.slowest import has_pictures, slowest_of
from pipeline.feed.table import advice, files_of
from pipeline.training.engine import strategy as strategy_lib
from pipeline.training.experiment import data as data_lib
from pipeline.training.experiment.config import Data
from pipeline.training.experiment.model import build_preprocess


def certify(
    args: Data,
    dataset: Dataset,
    *,
    slice_: Slice,
    step_ms: float | None,
    seconds: float,
    uncached: bool = False,
    max_corrupt_records: int = 0,
) -> tuple[Certificate, tuple[str, ...]]:
    """Measures on this host, which plays the part of the slice's first host; returns the certificate, and
    advice.

    Args:
      args: arguments of the experiment.
      uncached: whether to evict the files from the page cache, and to measure reading from the disk.
      max_corrupt_records: number of damaged records that may be left out of the training data.

    Raises:
      InputError: the experiment or the slice does not fit the dataset, more records are damaged than allowed,
        or `uncached` files are not on this host.
    """
    # Comes before anything else touches the devices.
    device = strategy_lib.create().extended.worker_devices[0]
    selections = data_lib.selections_of(args, dataset)
    selection = selections[args.split]
    paths = sorted({path for each in selections.values() for path in each.shards.paths})
    files = measure.residency(paths)  # asked first: what follows reads the files
    if uncached and files is None:
        raise InputError(
            "--cold",
            received=f"files that are not on this host, such as {paths[0]}",
            expected="local files, whose pages can be evicted",
            action="Leave it out: what is measured is read from there.",
        )
    selections, damaged = damage.sound_selection(selections, budget=max_corrupt_records)
    data = data_lib.training_data(args, selections)
    recipe = recipe_of(args, data, slice_)
    with naming_damage(*parts_of(data)), _bar() as bar:

        def show(stage: str) -> None:
            if bar.disable:  # nobody watches a terminal: it may take minutes, so a log should show it
                print(f"measuring: {stage}", file=sys.stderr, flush=True)
            bar.set_postfix_str(stage)
            bar.update()

        certificate = measure_certificate(
            recipe,
            Demand(global_batch=args.global_batch, slice=slice_, step_ms=step_ms),
            copy=copy_to(device),
            seconds=seconds,
            files=files,
            uncached_files=Uncached(paths=paths, examples=data.rows // slice_.hosts) if uncached else None,
            on_stage=show,
        )
        if files and has_pictures(recipe):  # only files on this host are read outside the pipeline
            show("the slowest picture")
            slowest = slowest_of(recipe, parts_of(data), cores=certificate.host.cores)
            certificate = dataclasses.replace(certificate, slowest=slowest)
    repeated = data_lib.repetition(args.global_batch, data.rows)
    said = [f"{repeated.capitalize()}."] if repeated else []
    if damaged:
        said.append(f"Left out: {listed(damaged)}.")
    return certificate, (*said, *advice(certificate, files_of(selection)))


def _bar() -> tqdm:
    return tqdm(desc="measuring", bar_format="{desc}{postfix} [{elapsed}]", leave=False, disable=None)


def recipe_of(args: Data, data: TrainingData, slice_: Slice) -> Recipe:
    """Returns the recipe of what the first host of the slice reads."""
    dataset = main_of(data).dataset
    statistics = loading.of_training(dataset)
    share = Share(
        global_batch=args.global_batch, replicas=slice_.replicas, shard_count=slice_.hosts, shard_index=0
    )
    return training_recipe(
        data_lib.read_plan(args, data, share=share),
        build_preprocess(args, dataset.schema, statistics),
        augmentation=args.augmentation,
        targets=data_lib.targets(args, dataset.schema),
    )
