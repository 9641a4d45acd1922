"""The observers that `config.observers` can name."""

import importlib.util
from collections.abc import Mapping, Sequence

from pipeline.base import redaction
from pipeline.base.errors import InputError, did_you_mean
from pipeline.training.experiment import code, own_classes
from pipeline.training.experiment.config import ANYWHERE, Place
from pipeline.training.loop.own_callbacks import is_own
from pipeline.training.observers.hparams import HParams
from pipeline.training.observers.mlflow_runs import Mlflow
from pipeline.training.observers.observer import Observer
from pipeline.training.observers.openlineage import OpenLineage
from pipeline.training.observers.wandb_runs import Wandb

OBSERVERS: Mapping[str, type[Observer]] = {
    "mlflow": Mlflow,
    "wandb": Wandb,
    "hparams": HParams,
    "openlineage": OpenLineage,
}
_OPTIONAL = {"mlflow": "mlflow", "wandb": "wandb"}  # the package that each needs
_KEY = "config.observers"
_EXAMPLE = '{"class_name": "mlflow", "config": {"experiment": "digits"}}'


def build(specs: Sequence[Mapping | str], *, place: Place = ANYWHERE) -> dict[str, Observer]:
    """Makes the observers of a config, by a name that tells them apart; does not connect to anything yet.

    Raises:
      InputError: one is not known, lacks its package, is not a subclass of Observer, or does not take its
        arguments. The error holds no secret of the config.
    """
    made: dict[str, Observer] = {}
    for number, spec in enumerate(specs):
        spec = {"class_name": spec} if isinstance(spec, str) else spec
        own_classes.require_spec(number, spec, key=_KEY, example=_EXAMPLE)
        name = spec.get("class_name")
        label = str(name) if name not in made else f"{name} {number}"
        made[label] = own_classes.make(_class(number, name, spec, place), spec, key=f"{_KEY}[{number}]")
    return made


def _class(number: int, name: object, spec: Mapping, place: Place) -> type[Observer]:
    key = f"{_KEY}[{number}], class_name"
    if is_own(name):
        what = "a subclass of Observer, of pipeline.training.observers.observer"
        return own_classes.find(spec, Observer, key=key, what=what, place=place)
    if name not in OBSERVERS:
        raise InputError(
            key,
            received=repr(redaction.public(name)),
            expected=f"one of {', '.join(OBSERVERS)}, or your own, as module:Class",
            action=did_you_mean(str(name), OBSERVERS, otherwise="Correct it, or leave it out."),
        )
    package = _OPTIONAL.get(str(name))
    if package and importlib.util.find_spec(package) is None:
        raise InputError(
            f"{key}={name}",
            received=f"a Python environment without {package}",
            expected="the optional packages for observers",
            action="Install them: pip install -r requirements/observers.txt, or 'penstock[observers]'.",
        )
    code.require_arguments(OBSERVERS[str(name)], spec.get("config") or {}, name=str(name), key=key)
    return OBSERVERS[str(name)]
