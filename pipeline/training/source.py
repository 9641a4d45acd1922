"""What a config trains on, and how it is read: the same for a run and for its feed certificate."""

from collections.abc import Mapping

from ml_collections import ConfigDict

from pipeline.data import manifest
from pipeline.data.augment import Augmentation
from pipeline.data.mixture import Mixture, Part, Source
from pipeline.data.selection import Selection, select


def others(config: ConfigDict) -> dict[str, Selection]:
    """What a mixture takes besides --dataset, by a name that is no split's."""
    return {
        _name(directory, split): select(manifest.open_dataset(directory), split)
        for directory, split, _ in config.mixture
    }


def source(config: ConfigDict, selections: Mapping[str, Selection]) -> Source:
    """All that is trained on; `selections` holds `config.train.split` and `others`."""
    main = Part(selection=selections[config.train.split], weight=config.train.weight)
    more = [
        Part(selection=selections[_name(directory, split)], weight=weight)
        for directory, split, weight in config.mixture
    ]
    return Mixture(parts=(main, *more)) if more else main.selection


def reading(config: ConfigDict) -> dict[str, object]:
    """How it is read: keyword arguments of `training_recipe`."""
    return {
        "global_batch": config.global_batch,
        "seed": config.seed,
        "shuffle": config.shuffle,
        "augmentation": Augmentation(**config.augmentation),
    }


def _name(directory: str, split: str) -> str:
    return f"{directory}: {split}"
