"""Decides whether a command may continue the run in its working directory.

It may make the run longer, and change how it is logged, saved and evaluated on the way. Everything on which
weights or the order of examples depend must stay the same; otherwise run.json would describe a run that never
happened.
"""

from collections.abc import Iterator, Mapping, Sequence

from pipeline.base.errors import InputError
from pipeline.base.values import value_at
from pipeline.training.state.run_record import RunRecord

# Keys of the config, or sections of it, that must be the same in all commands on one working directory.
BOUND = (
    "model",
    "init.without",
    "image_size",
    "seed",
    "global_batch",
    "image_dtype",
    "shuffle",
    "train.split",
    "train.micro_batches",
    "train.standardise_labels",
    "train.label_smoothing",
    "train.class_weights",
    "train.example_weights",
    "train.frozen",
    "train.weight",
    "loss",
    "mixture",
    "augmentation",
    "optimizer",
    "callbacks",
)
_LENGTH = ("train.epochs", "train.steps")


def require_same(before: RunRecord, now: RunRecord) -> None:
    """Raises InputError if the working directory belongs to another run."""
    if before.dataset_digest != now.dataset_digest:
        raise _another_dataset(before, now)
    if before.warm_start.get("checkpoint") != now.warm_start.get("checkpoint"):
        raise _other("--warm_start", _warmed(before), _warmed(now))
    if before.init.get("digest") != now.init.get("digest"):
        raise _other("--config.init.source", _begun(before), _begun(now))
    if before.precision["policy"] != now.precision["policy"]:
        raise _other("--precision", before.precision["policy"], now.precision["policy"])
    if before.order != now.order:
        raise _another_version("order of rows", before.order, now.order)
    if before.update != now.update:
        raise _another_version("update of weights", before.update, now.update)
    for name, was, is_ in differences(bound(before.config), bound(now.config)):
        raise _other(f"--config.{name}", was, is_)
    if before.augmentation != now.augmentation:
        raise _another_version("augmentation of images", before.augmentation, now.augmentation)
    _require_same_mixture(before.mixture_digests, now.mixture_digests)
    if before.finished and before.total_steps == now.total_steps:
        _require_equal(before, now)
    elif before.finished and before.steps < before.total_steps:
        raise _other(
            "length",
            f"{before.total_steps:,} steps: train.patience or a callback ended that run at step "
            f"{before.steps:,}, for good",
            f"{now.total_steps:,} steps",
        )


def _warmed(record: RunRecord) -> str:
    start = record.warm_start
    return f"{start['workdir']}, checkpoint {str(start['checkpoint'])[:12]}" if start else "no such flag"


def _begun(record: RunRecord) -> str:
    init = record.init
    return f"{init['source']}, SHA-256 {str(init['digest'])[:12]}" if init else "none"


def _require_same_mixture(before: Sequence[str], now: Sequence[str]) -> None:
    for was, is_ in zip(before, now, strict=True):
        if was != is_:
            raise _other("dataset of --config.mixture", was[:12], is_[:12])


def bound(config: Mapping) -> dict[str, object]:
    """The values, by their key, that must be the same in all commands on one working directory."""
    return {key: value_at(config, key) for key in BOUND}


def differences(was: Mapping, is_: Mapping) -> Iterator[tuple[str, object, object]]:
    """Yields (key, before, now) for each difference between two results of `bound`."""
    for key in is_:
        yield from _differences(was.get(key), is_[key], key)


def require_enough_steps(done: int, total_steps: int) -> None:
    """Raises InputError if the existing run is longer than the requested one."""
    if done > total_steps:
        raise InputError(
            "--config.train, length of the run",
            received=f"{total_steps:,} steps",
            expected=f"at least {done:,}, which the run in --workdir has done",
            action="Choose an empty --workdir, or more steps to continue that run.",
        )


def _require_equal(before: RunRecord, now: RunRecord) -> None:
    """Refuses another config for a finished run: nothing would be trained again, although it would look
    so.
    """
    for name, was, is_ in _differences(before.config, now.config):
        if name not in _LENGTH:
            raise InputError(
                f"--workdir, --config.{name}",
                received=is_,
                expected=f"{was}, as in the run that this directory holds, which is finished",
                action="Choose an empty --workdir; to evaluate otherwise, use pipeline.evaluate.",
            )


def _differences(was: object, is_: object, path: str = "") -> Iterator[tuple[str, object, object]]:
    """Yields (path, before, now) for every leaf that differs, and for the sections `model` and `loss` as a
    whole.

    Those sections hold only the options that are set; the optimizer's section may do the same.
    """
    if isinstance(was, Mapping) and isinstance(is_, Mapping) and path not in ("model", "loss"):
        for name in dict.fromkeys((*is_, *was)):
            key = f"{path}.{name}" if path else name
            yield from _differences(was.get(name), is_.get(name), key)
    elif was != is_:
        yield path, was, is_


def _another_dataset(before: RunRecord, now: RunRecord) -> InputError:
    was, is_ = before.datasets, now.datasets
    if len(was) == len(is_) == 1:
        return _other("dataset", before.dataset_digest[:12], now.dataset_digest[:12])
    for number, ((_, old), (directory, new)) in enumerate(zip(was, is_, strict=False), 1):
        if old != new:
            place = f"dataset {number} of {len(is_)}, {directory}"
            return _other(place, f"digest {old[:12]}", f"digest {new[:12]}")
    first, _ = (is_ if len(is_) > len(was) else was)[min(len(was), len(is_))]
    what = f"with {first}" if len(is_) > len(was) else f"without {first}"
    return _other("datasets", f"{len(was)}", f"{len(is_)}, {what}")


def _another_version(thing: str, was: int, is_: int) -> InputError:
    return InputError(
        f"--workdir, {thing}",
        received=f"version {is_}",
        expected=f"{was}, in which the run that this directory holds began",
        action="Choose an empty --workdir, or finish the run with the Penstock that began it; "
        "it can still be evaluated and exported.",
    )


def _other(thing: str, was: object, is_: object) -> InputError:
    return InputError(
        f"--workdir, {thing}",
        received=_format(is_),
        expected=f"{_format(was)}, as in the run that this directory holds",
        action="Choose an empty --workdir, or the same settings to continue that run.",
    )


def _format(value: object) -> object:
    return value if value != "" else "''"  # an empty text would not be visible
