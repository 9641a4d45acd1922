"""Defaults by rules: the values that a config leaves to its dataset, as `base.by_rules` does. No TensorFlow.

A config leaves a value to the rules by writing 0 for a number, () for a list, "auto" for a text, and for an
option of a model what `_OF_MODELS` says. Any other value, of the config or the command line, stays as it is.
A command resolves a config before anything else reads it: so a run, its record and all that is made of them
know numbers alone. The rules count the rows of the training split, R below.

| key | rule |
|---|---|
| `evaluation.split` | `validation`; where there is none, the last tenth of `train`: see below |
| `train.split` | `train`, without that tenth |
| `global_batch` | the largest power of two ≤ R / 16, from 16 to 256; groups: 8 or more, ≤ 16,384 rows |
| `train.epochs` | 10; 30 for `tabular` if R is from 5,000 to 100,000 |
| `train.steps` | at least 1,000; at least 2,000 for `tabular` if R is 2,000 or more |
| `evaluation.every_epochs` | a twentieth of the epochs |
| `train.keep_best` | `val_loss`, for ranking `val_ndcg_at_10`, if there is a validation |
| `train.patience` | 10, where the rules choose `train.keep_best`, and no callback is an `EarlyStopping` |
| options of models | `_OF_MODELS` below, by raw rows < 5,000; with `--warm_start` that run's |
| `model.widths`, `.blocks_per_stage`, `.stem_stride` | by the shorter side of a resnet's images, `_RESNETS` |

A tenth is held out only if there are 100 rows or more, and the schema has no `split_by`: its rows are random,
so groups would be torn apart, and times mixed.

The evidence, means over three splits of public tables, beside a batch of 256, 10 epochs and the last
checkpoint: RMSE 9.2 → 3.7 (365 rows), 67.8 → 53.0 (diabetes, 442), 8,530 → 3,632 (145); AUC .62 → .76
(720), .67 → .94 (216); accuracy .57 → .97 (wine, 178). Ten epochs of such a table are 6 steps. Without the
best checkpoint the longer runs learn by heart: .692 in place of .753. An evaluation after every epoch took
60% of such a run. Sines of a number (wide_deep) are one more thing to learn by heart: on 11 tables below
5,000 rows the network is better without. Members (tabular) cost their number times the multiplications, and
help where rows are few; docs/measurements.md has the tables.

A patience of 10 lost no best checkpoint of seven full runs, whose stop was computed from their history (wine,
breast cancer, diabetes, 600 rows of Adult, 900 of California, 3,000 of rt_polarity, 1,412 digits as
pictures): two of them end at half of their evaluations, the others at the last ones. With 8 none was lost
either. With 5 the best loss of the digits is 2.6 times as high, and with 3 that of breast cancer 4.4 times.

The cost of a convolution grows with the pixels: a stem that halves 28x28 pixels saves most of it.
"""

import dataclasses
import math
from collections.abc import Mapping

from pipeline.base.values import Values, section, value_at, with_values
from pipeline.data.dataset.manifest import TRAIN, VALIDATION, Dataset
from pipeline.data.dataset.selection import selected_ranges
from pipeline.data.schema.feature_types import Image
from pipeline.data.schema.schema import Schema
from pipeline.training.experiment import config as config_lib
from pipeline.training.experiment.evaluation_splits import filled_splits, validation_split

AUTO = "auto"
LEFT = (0, AUTO)  # values that a config leaves to the rules

_LEAST_BATCH, _LARGEST_BATCH = 16, 256
_LEAST_GROUPS, _ROWS_OF_GROUPS = 8, 1 << 14  # groups of a batch at least, and their rows at most
_BATCHES = 16  # an epoch has at least so many
_EPOCHS, _LEAST_STEPS = 10.0, 1_000
_EVALUATIONS = 20  # a run has about so many
_LEAST_DIVIDED = 100  # rows: a tenth of fewer does not tell which checkpoint is the best
_HELD_OUT, _OTHERS = f"{TRAIN}[90%:]", f"{TRAIN}[:90%]"
_PATIENCE_LEFT, _PATIENCE = -1, 10  # evaluations
_BEST, _BEST_RANKING = "val_loss", "val_ndcg_at_10"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Option:
    """An option that a config leaves by `left`: its value below `_MANY_ROWS` rows, and from there on."""

    left: int
    few: int
    many: int
    words: str = "{}"


_MANY_ROWS, _VERY_MANY_ROWS = 5_000, 100_000
# The epochs of the network for tables, which still improves after 10 epochs of 13,000 or 31,000 rows: RMSE
# 48,900 → 47,300 (California), AUC .9174 → .9215 (Adult), one split each, for 1.7 times the CPU. With more
# rows, even 10 epochs take long.
_EPOCHS_OF_TABLES = 30.0
# RMSE 163.7 → 152.4 of 4,006 rows (computers), one split.
_LEAST_STEPS_OF_TABLES, _SOME_ROWS = 2_000, 2_000
_OF_MODELS: Mapping[str, Mapping[str, _Option]] = {
    "wide_deep": {"frequencies": _Option(left=-1, few=0, many=8, words="{} sine frequencies")},
    "tabular": {"members": _Option(left=0, few=16, many=4, words="{} members")},
}
# The network for images whose shorter side has at least so many pixels: (side in pixels, network).
_RESNETS = (
    (96, {"widths": (32, 64, 128, 256), "blocks_per_stage": 2, "stem_stride": 4}),
    (64, {"widths": (32, 64, 128, 256), "blocks_per_stage": 2, "stem_stride": 2}),
    (16, {"widths": (32, 64, 128), "blocks_per_stage": 1, "stem_stride": 2}),
    (0, {"widths": (32, 64), "blocks_per_stage": 1, "stem_stride": 1}),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Resolved:
    """A config in which nothing is left to rules, and lines on what they chose."""

    values: Values
    lines: tuple[str, ...] = ()


def resolve(values: Values, dataset: Dataset, *, begins_with: Values | None = None) -> Resolved:
    """Returns the config for this dataset.

    Args:
      begins_with: the config of the run whose weights the new one begins with: their shapes stay as they are.

    Raises:
      InputError: a key is unknown or missing, or a split is none of the dataset.
    """
    config_lib.check_keys(values)
    splits = _splits(values, dataset)
    divided = with_values(values, splits)
    _, ranges = selected_ranges(dataset, divided["train"]["split"])
    rows = sum(end - first for first, end in ranges)
    manifest = dataset.manifest
    in_records = max(1, manifest.rows_written)
    of_each = (manifest.rows_read - manifest.rows_rejected) / in_records if dataset.schema.group else 1
    evaluation = section(config_lib.Evaluation, divided["evaluation"])
    chosen = by_rows(
        divided,
        rows=rows,
        rows_of_each=of_each,
        length=dataset.schema.group.length if dataset.schema.group else 1,
        best=_BEST_RANKING if dataset.schema.group else _BEST,
        is_validated=bool(validation_split(evaluation, dataset)),
        side=_shorter_side(values, dataset.schema),
    )
    if begins_with is not None and begins_with["model"].get("name") == values["model"].get("name"):
        kept = {f"model.{key}": value for key, value in begins_with["model"].items()}
        chosen |= {key: kept[key] for key in chosen if key in kept}
    resolved = with_values(divided, chosen)
    made = f"validation {_HELD_OUT}, as the dataset has no such split; trained on {_OTHERS}"
    return Resolved(
        values=resolved,
        lines=(*([made] if "train.split" in splits else []), *_lines(resolved, chosen, rows)),
    )


def batch_of_rows(values: Values, dataset: Dataset, *, batch: int) -> int:
    """Returns `batch`, or where it is left to the rules, that of the rows which these values train on."""
    return resolve(with_values(values, {"global_batch": batch}), dataset).values["global_batch"]


def _splits(values: Values, dataset: Dataset) -> dict[str, str]:
    if values["evaluation"]["split"] != AUTO:
        return {}
    filled = filled_splits(dataset)
    is_divided = values["train"]["split"] == TRAIN and filled.get(TRAIN, 0) >= _LEAST_DIVIDED
    if VALIDATION in filled or not is_divided or dataset.schema.split_by:
        return {"evaluation.split": VALIDATION}
    return {"evaluation.split": _HELD_OUT, "train.split": _OTHERS}


def _shorter_side(values: Values, schema: Schema) -> int:
    """Pixels that a model gets of an image's shorter side; 0: there is none, or the sizes vary."""
    if any(values["image_size"]):
        return min(values["image_size"])
    return min(
        (min(each.height, each.width) for each in schema.features if isinstance(each, Image)), default=0
    )


def by_rows(
    values: Values,
    *,
    rows: int,
    is_validated: bool,
    side: int = 0,
    rows_of_each: float = 1,
    length: int = 1,
    best: str = _BEST,
) -> dict[str, object]:
    """Returns the values, by key, that are left to the rows of the training split.

    Args:
      is_validated: whether a split is evaluated after epochs.
      side: pixels of the images' shorter side; 0: not known, as large ones.
      rows_of_each: rows of raw data in a row of the split: options of models are chosen by these.
      length: rows of raw data for which a row of the split has room.
      best: the number by which the best checkpoint is chosen.
    """
    batch = values["global_batch"] or min(_batch(rows), _most_groups(length))
    lasts = _length_of_run(values, rows=rows, batch=batch)
    passes = lasts["train.steps"] * batch / rows if lasts["train.steps"] else lasts["train.epochs"]
    every = values["evaluation"]["every_epochs"] or _every(passes)
    rules = {
        "global_batch": batch,
        **lasts,
        "evaluation.every_epochs": every,
        "train.keep_best": best if is_validated and every - 1 < passes else "",
    }
    given = {key: value_at(values, key) for key in rules}
    chosen = {key: each for key, each in rules.items() if given[key] in LEFT and each != given[key]}
    if values["train"]["patience"] == _PATIENCE_LEFT:
        chosen["train.patience"] = _PATIENCE if _stops_early(values, chosen) else 0
    chosen |= {
        f"model.{name}": option.many if rows * rows_of_each >= _MANY_ROWS else option.few
        for name, option in _options(values).items()
        if values["model"].get(name) == option.left
    }
    if values["model"].get("name") == "resnet":
        chosen |= _resnet(values["model"], side=side)
    return chosen


def _stops_early(values: Values, chosen: Values) -> bool:
    """Returns whether the rules choose the best checkpoint, and no callback says when to stop."""
    stops = any("EarlyStopping" in (each.get("class_name") or "") for each in values["callbacks"])
    return bool(chosen.get("train.keep_best")) and not stops


def _options(values: Values) -> Mapping[str, _Option]:
    """The options of the config's model that can be left to the rows, by name."""
    return _OF_MODELS.get(values["model"].get("name", ""), {})


def _resnet(model: Values, *, side: int) -> dict[str, object]:
    network = next(each for least, each in _RESNETS if side >= least or not side)
    return {f"model.{name}": value for name, value in network.items() if name in model and not model[name]}


def _batch(rows: int) -> int:
    """The largest power of two that `rows` hold 16 times, from 16 to 256."""
    fitting = 2 ** (max(1, rows // _BATCHES).bit_length() - 1)
    return min(max(_LEAST_BATCH, fitting), _LARGEST_BATCH)


def _most_groups(length: int) -> int:
    """The most groups of a batch, a power of two, with at most _ROWS_OF_GROUPS rows in groups of `length`."""
    return max(_LEAST_GROUPS, 2 ** (max(1, _ROWS_OF_GROUPS // length).bit_length() - 1))


def _length_of_run(values: Values, *, rows: int, batch: int) -> dict[str, object]:
    """The epochs and the steps, 0 where the epochs count."""
    train, is_tabular = values["train"], values["model"].get("name") == "tabular"
    if train["epochs"] or train["steps"]:
        return {"train.epochs": train["epochs"], "train.steps": train["steps"]}
    epochs = _EPOCHS_OF_TABLES if is_tabular and _MANY_ROWS <= rows <= _VERY_MANY_ROWS else _EPOCHS
    least = _LEAST_STEPS_OF_TABLES if is_tabular and rows >= _SOME_ROWS else _LEAST_STEPS
    is_short = epochs * rows < least * batch
    return {"train.epochs": epochs, "train.steps": least if is_short else 0}


def _every(passes: float) -> int:
    return max(1, int(passes / _EVALUATIONS)) if passes < math.inf else 1  # others are refused later


def _lines(resolved: Values, chosen: Values, rows: int) -> list[str]:
    """`defaults   batch 32, 1,000 steps, evaluation every 5 epochs, best val_loss kept: 365 rows`."""
    train, every = resolved["train"], resolved["evaluation"]["every_epochs"]
    length = f"{train['steps']:,} steps" if train["steps"] else f"{train['epochs']:g} epochs"
    words = {
        "global_batch": f"batch {resolved['global_batch']:,}",
        "train.epochs": length,
        "evaluation.every_epochs": f"evaluation every {f'{every} epochs' if every > 1 else 'epoch'}",
        **{
            f"model.{name}": option.words.format(resolved["model"].get(name) or "no")
            for name, option in _options(resolved).items()
        },
        "model.widths": f"stages of {', '.join(map(str, resolved['model'].get('widths', ())))} channels",
        "model.blocks_per_stage": f"blocks in each: {resolved['model'].get('blocks_per_stage')}",
        "model.stem_stride": f"stem stride {resolved['model'].get('stem_stride')}",
        "train.keep_best": f"the best {train['keep_best']} kept" if train["keep_best"] else "",
        "train.patience": f"an end after {train['patience']} evaluations without a better one"
        if train["patience"]
        else "",
    }
    said = [text for key, text in words.items() if key in chosen and text]
    return [f"defaults   {', '.join(said)}: {rows:,} rows"] if said else []
