"""Features and metrics that the config names, held to the schema before anything is trained."""

from collections.abc import Sequence

from ml_collections import ConfigDict

from pipeline.data.errors import InputError
from pipeline.data.nearest import did_you_mean
from pipeline.data.schema.schema import Schema
from pipeline.release.cycles.settings import Settings
from pipeline.release.gate.metrics import METRICS
from pipeline.release.holdout import groups
from pipeline.training.experiment import example_weights


def check(settings: Settings, schema: Schema) -> None:
    """Raises InputError for a feature that the schema, or a metric that its task does not have."""
    gate, config = settings.gate, settings.config
    groups.require_columns(gate.slices, schema, told="config.gate.slices")
    clustered_by = (gate.clustered_by,) if gate.clustered_by else ()
    groups.require_columns(clustered_by, schema, told="config.gate.clustered_by")
    example_weights.named(config.holdout.weighted_by, schema, flag="config.holdout.weighted_by")
    _check_ignored(config, [feature.name for feature in schema.features])
    metrics = [metric.name for metric in METRICS[schema.label.task]]
    if gate.metric:
        _require("config.gate.metric", gate.metric, metrics, f"a metric of task '{schema.label.task}'")
    for name in gate.floors:
        _require("config.gate.floors", name, metrics, f"metrics of task '{schema.label.task}'")


def _check_ignored(config: ConfigDict, names: Sequence[str]) -> None:
    for name in config.drift.ignore:
        _require("config.drift.ignore", name, names, "features of the schema")


def _require(key: str, name: str, known: Sequence[str], what: str) -> None:
    if name not in known:
        raise InputError(
            key,
            received=repr(name),
            expected=f"{what}: {', '.join(known)}",
            action=did_you_mean(name, known, otherwise="Name one of them, or leave it out."),
        )
