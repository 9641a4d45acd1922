"""Of which run a checkpoint is: it must not go on in another, though the variables fit."""

from collections.abc import Mapping

from pipeline.data.errors import InputError
from pipeline.training.state import continuation
from pipeline.training.state.run_record import RunRecord

_CONFIG, _AUGMENTATION = "config", "augmentation"
_BEFORE = {_AUGMENTATION: 0}  # of versions that did not say it


def of_run(record: RunRecord, *, schema: str) -> dict[str, object]:
    """What a checkpoint says of its run, as JSON has it.

    Args:
      schema: fingerprint.
    """
    return {
        "dataset": record.dataset_digest,
        "schema": schema,
        "order": record.order,
        "update": record.update,
        _AUGMENTATION: record.augmentation,
        "precision": record.precision["policy"],
        "warm_start": record.warm_start.get("checkpoint", ""),
        _CONFIG: continuation.bound(record.config),
    }


def require_same(saved: Mapping[str, object], now: Mapping[str, object], *, checkpoint: object) -> None:
    """Raises InputError where a checkpoint is of another run; what one of them does not say may differ.

    But for the version of the augmentation: a checkpoint that does not say it is of an older one.
    """
    told = _BEFORE | dict(saved)
    differences = list(continuation.differences(told.get(_CONFIG, {}), now.get(_CONFIG, {})))
    differences += [
        (key, told[key], now[key]) for key in now if key != _CONFIG and told.get(key, now[key]) != now[key]
    ]
    for name, was, is_ in differences:
        raise InputError(
            f"checkpoint {checkpoint}, {name}",
            received=was,
            expected=f"{is_}, as in the run of this directory",
            action="Take the checkpoint of another run away, or train in an empty --workdir.",
        )
