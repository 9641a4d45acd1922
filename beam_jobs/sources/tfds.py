"""Datasets that TensorFlow Datasets has prepared: `tfds:NAME[/CONFIG][:VERSION][@SPLIT]` or `tfds:DIRECTORY`.

Without `@SPLIT`, every split of the dataset goes to the split of that name, unless --input pins it. Nothing
is downloaded: prepare the dataset with `tfds build` first. Only this source imports TensorFlow on a worker,
because TFDS decodes with it. Images are not decoded: their bytes are kept.
"""

import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from beam_jobs.sources import files
from beam_jobs.sources.columns import NumberedRow, raw_rows
from beam_jobs.sources.source import Input, InputSplit, RawRows
from pipeline.base.errors import InputError

PREFIX = "tfds:"
_EXAMPLES_IN_SPLIT = 1 << 14


@dataclasses.dataclass(frozen=True, kw_only=True)
class TfdsDatasets:
    """Columns by path; class labels by name. An input split is a range of a split's ordered examples."""

    batch_rows: int = 1 << 12
    examples_in_split: int = _EXAMPLES_IN_SPLIT

    def input_splits(self, inputs: Iterable[Input]) -> list[InputSplit]:
        return [input_split for given in inputs for input_split in self._input_splits(given)]

    def _input_splits(self, given: Input) -> Iterator[InputSplit]:
        name, _, split = given.location.removeprefix(PREFIX).partition("@")
        splits = _builder(name).info.splits
        if not splits or (split and split not in splits):
            raise InputError(
                f"--input={given.location}",
                received=f"split '{split}'" if splits else "a dataset that is not prepared here",
                expected=f"one of {', '.join(splits)}" if splits else "its files in TFDS's data directory",
                action="Correct the name after '@'." if splits else f"Run `tfds build {name}` first.",
            )
        for found in [split] if split else list(splits):
            info = splits[found]
            parts = files.ranges(info.num_examples, self.examples_in_split)
            for start, end in parts:
                yield InputSplit(
                    paths=(f"{PREFIX}{name}@{found}",),
                    root="",
                    bytes=-(-info.num_bytes // len(parts)),
                    split=given.split or found,
                    start=start,
                    end=end,
                )

    def read(self, input_split: InputSplit) -> Iterator[RawRows]:
        name, _, split = input_split.paths[0].removeprefix(PREFIX).partition("@")
        builder = _builder(name)
        features = builder.info.features
        dataset = builder.as_dataset(
            split=f"{split}[{input_split.start}:{input_split.end}]",
            shuffle_files=False,
            decoders=_undecoded_images(features),
        )
        rows: list[NumberedRow] = []
        for number, example in enumerate(dataset.as_numpy_iterator(), input_split.start + 1):
            rows.append(NumberedRow(number, _plain(example, features)))
            if len(rows) == self.batch_rows:
                yield _raw_rows(input_split, rows)
                rows = []
        yield _raw_rows(input_split, rows)


def _raw_rows(input_split: InputSplit, rows: list[NumberedRow]) -> RawRows:
    # Row numbers count within the split, not within the input split.
    return dataclasses.replace(raw_rows(input_split, rows), sources=input_split.paths[0], directory="")


def _builder(name: str) -> Any:
    import tensorflow_datasets as tfds

    try:
        if pathlib.Path(name).is_dir() or "://" in name:
            return tfds.builder_from_directory(name)
        return tfds.builder(name)
    except Exception as error:  # TFDS raises errors of many classes, with advice of many lines
        raise InputError(
            f"--input={PREFIX}{name}",
            received=f"no such dataset ({type(error).__name__}: {str(error).strip().splitlines()[0][:200]})",
            expected="a name that TFDS knows, or the directory of a prepared version of one",
            action="Correct the name; for a directory, give the one that holds dataset_info.json.",
        ) from None


def _undecoded_images(features: Mapping[str, Any]) -> dict[str, Any]:
    import tensorflow_datasets as tfds

    skipped: dict[str, Any] = {}
    for name, feature in features.items():
        if isinstance(feature, tfds.features.Image):
            skipped[name] = tfds.decode.SkipDecoding()
        elif isinstance(feature, tfds.features.FeaturesDict) and (inside := _undecoded_images(feature)):
            skipped[name] = inside
    return skipped


def _plain(example: Mapping[str, Any], features: Mapping[str, Any]) -> dict[str, object]:
    """Python values; a class label becomes its name."""
    return {name: _value(value, features[name]) for name, value in example.items()}


def _value(value: object, feature: Any) -> object:
    if isinstance(value, Mapping):
        return _plain(value, feature)
    if hasattr(feature, "int2str") and feature.num_classes and np.ndim(value) == 0:
        return feature.int2str(int(value)) if value >= 0 else None  # -1: no label, as in test splits
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
