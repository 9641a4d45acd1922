"""An experiment: the values of a config, parsed once and checked, in frozen sections.

Each room gets the section that it needs. Defaults and meanings are in pipeline/configs/base.py. No
TensorFlow: a command refuses a wrong value before it imports it.
"""

import dataclasses
import decimal
import json
import math
import pathlib
from collections.abc import Mapping, Sequence

from pipeline.base import redaction
from pipeline.base.errors import InputError, did_you_mean, unknown_name
from pipeline.base.values import Rule, Values, broken_rules, section
from pipeline.data.images.augmentation import Augmentation
from pipeline.training.loop.bad_steps import POLICIES, Policy


@dataclasses.dataclass(frozen=True, kw_only=True)
class MixedDataset:
    """A dataset that a mixture takes besides --dataset."""

    directory: str
    split: str
    weight: float

    @property
    def name(self) -> str:
        """A name that no split has."""
        return f"{self.directory}: {self.split}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Data:
    """The data to train on, and how it is read."""

    split: str
    weight: float
    mixture: tuple[MixedDataset, ...]
    example_weights: str  # the feature that weighs the examples; empty: each counts the same
    seed: int
    global_batch: int
    shuffle: str
    image_size: tuple[int, int] | None  # None: the size in the schema
    image_dtype: str
    augmentation: Augmentation


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """The place where the code is found that a config names; see code.py.

    Attributes:
      folder: folder of the config file, where own code is looked for first; empty: there is none.
      recorded: what run.json says about the code, by name; empty: the run begins.
      workdir: working directory of the run that recorded it.
    """

    folder: str = ""
    recorded: Mapping[str, Values] = dataclasses.field(default_factory=dict)
    workdir: pathlib.Path | None = None


ANYWHERE = Place()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """The code that builds a model (see model_code.py), its keyword arguments, and its first weights.

    Attributes:
      seed: seed of its first weights.
      init: the file or directory that gives the first weights instead, where names fit; empty: none does.
      init_without: patterns of the variables that take no weights from it.
      frozen: patterns of the variables that are not trained.
    """

    name: str
    options: Values
    seed: int
    place: Place = ANYWHERE
    init: str = ""
    init_without: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loss:
    """Settings that change the task's own loss."""

    standardise_labels: bool
    label_smoothing: float
    class_weights: tuple[object, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class OwnLoss:
    """A loss in place of the task's (see losses.py), and its arguments; an empty name means the task's
    loss.
    """

    name: str
    options: Values
    place: Place = ANYWHERE


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train:
    """The length of a run, the parts in which it runs, and what it keeps."""

    epochs: float
    steps: int
    steps_per_loop: int
    log_every_steps: int
    checkpoint_every_steps: int
    checkpoints_kept: int
    keep_best: str
    patience: int
    micro_batches: int
    remat: tuple[str, ...]  # patterns of the layers whose insides are computed again, not kept
    on_bad_step: Policy
    bad_steps_allowed: int
    jit_compile: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimizer:
    """An optimizer and its learning rate."""

    name: str
    learning_rate: float
    schedule: str
    warmup_steps: int
    warmup_part: float
    clip_norm: float
    ema: float
    weight_decay: float
    not_decayed: tuple[str, ...]
    momentum: float
    matrices: tuple[str, ...]  # patterns of the variables that muon updates
    sparse: str  # which tables are updated by rows: one of SPARSE
    options: Values  # further arguments of one that code names
    rates: tuple[tuple[str, float], ...]  # a pattern of variables, and the multiple of their learning rate
    place: Place = ANYWHERE


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The splits that are evaluated, and when."""

    split: str
    every_epochs: int
    final_split: str
    global_batch: int
    metrics: tuple[str, ...]  # metrics besides the task's: see metrics.py
    place: Place = ANYWHERE


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """Everything that a config says.

    Attributes:
      callbacks: each is {"class_name": …, "config": {…}}.
      observers: each is a name, or of the same form.
      given: the config as JSON, which run.json holds; without the secrets of observers.
    """

    data: Data
    model: Model
    loss: Loss
    own_loss: OwnLoss
    train: Train
    optimizer: Optimizer
    evaluation: Evaluation
    callbacks: tuple[Mapping, ...]
    observers: tuple[Mapping | str, ...]
    given: Values

    @property
    def beside_config(self) -> Place:
        """The place of callbacks and observers: these are taken as they are now, whatever the run
        recorded.
        """
        return Place(folder=self.model.place.folder)

    def at(self, place: Place) -> "Experiment":
        """Returns the experiment with its code in another place."""
        named = ("model", "own_loss", "optimizer", "evaluation")
        sections = {name: dataclasses.replace(getattr(self, name), place=place) for name in named}
        return dataclasses.replace(self, **sections)


def parse(config: Values, *, config_file: str = "") -> Experiment:
    """Parses the values of a config file, or those that run.json holds.

    Args:
      config_file: the file that `--config` names; own code is first looked for in its folder.

    Raises:
      InputError: a key is unknown or missing, or a value is not allowed.
    """
    check_keys(config)
    _check_values(config)
    values = _frozen({name: value for name, value in config.items() if name not in _SPECS})
    train, seed = values["train"], values["seed"]
    model, own_loss = dict(values["model"]), dict(values["loss"])
    folder = str(pathlib.Path(config_file.partition(":")[0]).parent.resolve()) if config_file else ""
    experiment = Experiment(
        data=Data(
            split=train["split"],
            weight=train["weight"],
            mixture=_mixture(values["mixture"]),
            example_weights=train["example_weights"],
            seed=seed,
            global_batch=values["global_batch"],
            shuffle=values["shuffle"],
            image_size=values["image_size"] if any(values["image_size"]) else None,
            image_dtype=values["image_dtype"],
            augmentation=Augmentation(**values["augmentation"]),
        ),
        model=Model(
            name=model.pop("name", ""),
            options=model,
            seed=seed,
            init=values["init"]["source"],
            init_without=values["init"]["without"],
            frozen=train["frozen"],
        ),
        loss=section(Loss, train),
        own_loss=OwnLoss(name=own_loss.pop("name", ""), options=own_loss),
        train=section(Train, train),
        optimizer=_optimizer(values["optimizer"]),
        evaluation=section(Evaluation, values["evaluation"]),
        callbacks=tuple(config["callbacks"]),
        observers=tuple(config["observers"]),
        given=as_json(config),
    )
    return experiment.at(Place(folder=folder))


def _optimizer(values: Values) -> Optimizer:
    known = _KEYS["optimizer"]
    options = {name: value for name, value in values.items() if name not in known}
    return section(Optimizer, {**values, "options": options})


def as_json(config: Values) -> dict[str, object]:
    """Returns the config in the form of JSON: tuples become lists, and the secrets of observers are
    hidden.
    """
    shown = {**config, "observers": redaction.public(config.get("observers", ()))}
    return json.loads(json.dumps(shown, default=repr))


def check_length(steps: int) -> None:
    """Raises InputError for a run with more steps than can be counted."""
    if steps > _MOST_STEPS:
        raise _error("train.epochs", f"{decimal.Decimal(steps):.3g} steps", f"at most {_MOST_STEPS:,} steps")


def _names(*sections: type) -> frozenset[str]:
    return frozenset(field.name for section in sections for field in dataclasses.fields(section))


_SPECS = ("callbacks", "observers")  # lists of dicts, which have checks of their own
_GROUPS = ("model", "init", "loss", "augmentation", "train", "optimizer", "evaluation", *_SPECS)
# The keys of a config, by section; any key may stand in `model`, in `loss`, and beside a named optimizer.
_KEYS: Mapping[str, frozenset[str]] = {
    "": frozenset({"seed", "global_batch", "mixture", "image_size", "shuffle", "image_dtype", *_GROUPS}),
    "init": frozenset({"source", "without"}),
    "augmentation": _names(Augmentation),
    "train": _names(Loss, Train) | {"split", "weight", "example_weights", "frozen"},
    "optimizer": _names(Optimizer) - {"options", "place"},
    "evaluation": _names(Evaluation) - {"place"},
}


def check_keys(config: Values) -> None:
    """Raises InputError where a key is unknown or missing."""
    for group, known in _KEYS.items():
        prefix = f"{group}." if group else ""
        given = config[group] if group else config
        for name in given:
            takes_more = group == "optimizer" and given.get("name") not in OWN_OPTIMIZERS
            if name not in known and not takes_more:
                meant = did_you_mean(name, sorted(known), otherwise="Leave it out.")
                expected = f"a key of {group or 'the config'}, which pipeline/configs/base.py lists"
                raise _error(f"{prefix}{name}", "a key that does not exist", expected, meant)
        for name in sorted(known):
            if name not in given:
                begin = "Begin the config with get_config() of pipeline/configs/base.py."
                raise _error(f"{prefix}{name}", "nothing", "a value", begin)


# optimizer.py makes these; others are named as code.
OWN_OPTIMIZERS = ("adamw", "adam", "sgd", "adagrad", "muon")
SPARSE = ("auto", "always", "never")
_MOST_STEPS = 2**31 - 1  # counted in int32 by the devices
MOST_EXAMPLES = 2**31 - 1  # in a batch, whose examples are counted in int32
_MOST_PIXELS = 16_384  # a side of an image
_SEEDS = 2**32  # NumPy's


def _is_rate(value: object) -> bool:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        return False
    pattern, factor = value
    is_number = isinstance(factor, (int, float)) and not isinstance(factor, bool)
    return isinstance(pattern, str) and is_number and 0 < factor < math.inf


def _is_size(value: Sequence[int]) -> bool:
    """Returns whether this is a height and a width, or (0, 0)."""
    is_image = all(isinstance(side, int) and 0 <= side <= _MOST_PIXELS for side in value)
    return len(value) == 2 and is_image and all(value) == any(value)


# NaN fails every comparison.
_POSITIVE: Rule = (lambda value: 0 < value < math.inf, "a positive number")
_NOT_NEGATIVE: Rule = (lambda value: 0 <= value < math.inf, "0 or a positive number")
_PATTERNS: Rule = (
    lambda patterns: all(isinstance(each, str) for each in patterns),
    "patterns of variables, such as ('conv*', 'stem/*')",
)
# Other numbers would train without a warning, or fail late.
_RULES: Mapping[str, Rule] = {
    "seed": (lambda value: 0 <= value < _SEEDS, f"a whole number from 0 to {_SEEDS - 1:,}"),
    "global_batch": (lambda value: 1 <= value <= MOST_EXAMPLES, f"1 to {MOST_EXAMPLES:,} examples"),
    "image_size": (
        _is_size,
        f"a height and a width of at most {_MOST_PIXELS:,}, as 224,224; 0,0: the size in the schema",
    ),
    "train.steps": (lambda value: 0 <= value <= _MOST_STEPS, f"0 (as train.epochs says) to {_MOST_STEPS:,}"),
    "train.weight": _POSITIVE,
    "train.steps_per_loop": _POSITIVE,
    "train.log_every_steps": _POSITIVE,
    "train.checkpoint_every_steps": _POSITIVE,
    "train.checkpoints_kept": (lambda value: value >= 1, "1 or more: a run goes on from the newest one"),
    "train.patience": (lambda value: value >= 0, "0 (the run never stops early) or more"),
    "train.bad_steps_allowed": (lambda value: value >= 0, "0 or more"),
    "train.label_smoothing": (
        lambda value: 0 <= value < 1,
        "a part of a label, from 0 to below 1, such as 0.1",
    ),
    "optimizer.learning_rate": _NOT_NEGATIVE,
    "optimizer.weight_decay": _NOT_NEGATIVE,
    "optimizer.momentum": (lambda value: 0 <= value < 1, "a number from 0 to below 1"),
    "optimizer.warmup_steps": (lambda value: value >= 0, "0 or more"),
    "optimizer.warmup_part": (
        lambda value: 0 <= value < 1,
        "a part of the run, from 0 to below 1, such as 0.05",
    ),
    "optimizer.clip_norm": (lambda value: value >= 0, "a positive norm, or 0 for no clipping"),
    "optimizer.ema": (
        lambda value: 0 <= value < 1,
        "a decay from 0 (no averages) to below 1, such as 0.999",
    ),
    "evaluation.metrics": (
        lambda value: isinstance(value, list | tuple) and all(isinstance(each, str) for each in value),
        "names, as ('f1', 'precision@0.3')",
    ),
    "init.without": _PATTERNS,
    "optimizer.matrices": _PATTERNS,
    "train.frozen": _PATTERNS,
    "train.remat": (_PATTERNS[0], "patterns of layers, such as ('block_*',)"),
    "optimizer.rates": (
        lambda rates: all(map(_is_rate, rates)),
        "a pattern of variables and a positive number for each, such as (('logits/*', 10.0),)",
    ),
    "evaluation.every_epochs": (lambda value: value >= 1, "1 or more"),
    "evaluation.global_batch": _POSITIVE,
}


def _check_values(config: Values) -> None:
    for broken in broken_rules(config, _RULES):
        raise _error(*broken)
    train = config["train"]
    if not train["steps"] and not _POSITIVE[0](train["epochs"]):
        raise _error("train.epochs", train["epochs"], _POSITIVE[1])
    if train["patience"] and not train["keep_best"]:
        expected = "0, since --config.train.keep_best names no number that an evaluation could improve"
        raise _error("train.patience", train["patience"], expected)
    sparse = config["optimizer"]["sparse"]
    if sparse not in SPARSE:
        raise unknown_name("--config.optimizer.sparse", sparse, SPARSE, otherwise="Choose one of these.")
    policy = train["on_bad_step"]
    if policy not in POLICIES:
        key, otherwise = "--config.train.on_bad_step", "Choose one of these."
        raise unknown_name(key, policy, POLICIES, otherwise=otherwise)


def _frozen(value: object) -> object:
    """Returns the value with tuples for lists, also inside mappings."""
    if isinstance(value, Mapping):
        return {name: _frozen(each) for name, each in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value


def _mixture(parts: Sequence[object]) -> tuple[MixedDataset, ...]:
    for part in parts:
        if not _is_mixed(part):
            expected = "a directory, a split and a weight for each dataset"
            raise _error("mixture", repr(part), expected, "Write it as (('data/old/1.0.0', 'train', 0.5),).")
    return tuple(
        MixedDataset(directory=directory, split=split, weight=weight) for directory, split, weight in parts
    )


def _is_mixed(part: object) -> bool:
    if not isinstance(part, tuple) or len(part) != 3:
        return False
    *names, weight = part
    is_number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
    return is_number and all(isinstance(name, str) and name for name in names)


def _error(
    key: str,
    received: object,
    expected: str,
    action: str = "Correct it in the config file or on the command line.",
) -> InputError:
    return InputError(f"--config.{key}", received=received, expected=expected, action=action)


NONE, LINEAR = "none", "linear"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RateScaling:
    """Scales the learning rate to a global batch other than that of the config file: `--lr_scaling`.

    With `linear` the rate grows with the global batch (Goyal et al. 2017, section 2.1). The number of
    replicas, which only divide a global batch, does not count. So a run may continue with another number of
    replicas.

    Attributes:
      how: NONE or LINEAR.
      file_batch: the global batch for which the rate of a config is meant, where it is scaled.
    """

    how: str = NONE
    file_batch: int = 0

    def scaled(self, config: Values) -> Values:
        """Returns the config with the learning rate for its global batch."""
        if self.how == NONE or self.file_batch <= 0:  # such a batch is refused later
            return config
        rate = config["optimizer"]["learning_rate"] * config["global_batch"] / self.file_batch
        return {**config, "optimizer": {**config["optimizer"], "learning_rate": rate}}

    def summary(self, config: Values) -> str:
        """Says which rate a config gets, and why."""
        rate = f"{self.scaled(config)['optimizer']['learning_rate']:g}"
        if self.how == NONE:
            return f"{rate} for any global batch (--lr_scaling={NONE})"
        return (
            f"{rate}, which is {config['optimizer']['learning_rate']:g} × {config['global_batch']:,} / "
            f"{self.file_batch:,}, the global batch of the config file (--lr_scaling={LINEAR})"
        )
