"""The feed certificate of an experiment: what it reads, as its training would read it."""

import tensorflow as tf
from ml_collections import ConfigDict
from tqdm import tqdm

from pipeline.data import statistics as statistics_lib
from pipeline.data.feed.advice import advice, files_of
from pipeline.data.feed.certificate import Certificate, Demand
from pipeline.data.feed.copy import copy_to
from pipeline.data.feed.issue import issue
from pipeline.data.feed.slices import Slice
from pipeline.data.manifest import Dataset
from pipeline.data.mixture import Source, main_of
from pipeline.data.recipe import Recipe
from pipeline.data.selection import select
from pipeline.data.training_recipe import training_recipe
from pipeline.training import source as source_lib
from pipeline.training import strategy as strategy_lib
from pipeline.training.build import build_preprocess
from pipeline.training.setup import TRAIN_SPLIT


def certify(
    config: ConfigDict, dataset: Dataset, *, slice_: Slice, step_ms: float | None, seconds: float
) -> tuple[Certificate, tuple[str, ...]]:
    """Measures on this host, in the part of the slice's first host; returns the certificate, and advice.

    Raises:
      InputError: the config or the slice does not fit the dataset.
    """
    device = strategy_lib.create().extended.worker_devices[0]  # before anything else touches the devices
    selection = select(dataset, config.train.split)
    selections = {config.train.split: selection, **source_lib.others(config)}
    recipe = recipe_of(config, source_lib.source(config, selections), slice_)
    with tqdm(desc="measuring", unit="stage", disable=None) as bar:

        def show(stage: str) -> None:
            bar.set_postfix_str(stage)
            bar.update()

        certificate = issue(
            recipe,
            Demand(global_batch=config.global_batch, slice=slice_, step_ms=step_ms),
            copy=copy_to(device),
            seconds=seconds,
            on_stage=show,
        )
    return certificate, advice(certificate, files_of(selection))


def recipe_of(config: ConfigDict, source: Source, slice_: Slice) -> Recipe:
    """What the first host of the slice reads."""
    dataset = main_of(source).dataset
    statistics = statistics_lib.load(dataset)[TRAIN_SPLIT]
    return training_recipe(
        source,
        build_preprocess(config, dataset.schema, statistics),
        **source_lib.reading(config),
        context=tf.distribute.InputContext(
            num_input_pipelines=slice_.hosts, input_pipeline_id=0, num_replicas_in_sync=slice_.replicas
        ),
    )
