"""A run in MLflow: its config as parameters, its metrics, its datasets, and the report as an artifact."""

import os
import pathlib
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.base import redaction
from pipeline.base.values import leaves
from pipeline.training.observers.observer import (
    Observer,
    Place,
    Point,
    final_metrics,
    library,
    metrics_of,
    name_of,
)
from pipeline.training.state.run_record import RunRecord

# Limits and switches: a server that hangs would delay training for minutes; training must not report to
# anybody unasked; and the link that MLflow prints has the password of its URI.
_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
_LONGEST_PARAMETER, _MOST_PARAMETERS = 6000, 100  # limits of a server's tables, and of one request
_LONGEST_DIGEST = 36
_NOT_OF_A_NAME = re.compile(r"[^\w\-. /]")  # `recall@0.3` becomes `recall_0.3`


class Mlflow(Observer):
    """Continues the same MLflow run after a kill; each log point is there once.

    Args:
      tracking_uri: URI of the server or the folder; empty: the value of MLFLOW_TRACKING_URI. User, password
        or token belong in MLFLOW_TRACKING_USERNAME, …_PASSWORD and …_TOKEN.
      experiment: name of the experiment in MLflow; it is created if it does not exist.
      run_name: name of the run; empty: made from the config and the working directory.
    """

    def __init__(self, *, tracking_uri: str = "", experiment: str = "penstock", run_name: str = "") -> None:
        self._uri, self._experiment, self._name = tracking_uri, experiment, run_name
        self._client: Any = None  # mlflow.MlflowClient, once the run has started
        self._run_id = self._page = ""
        self._last = -1  # the step of the last log point that MLflow has

    def started(self, record: RunRecord, place: Place, history: Sequence[Point]) -> None:
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        self._client = self._client or library("mlflow").MlflowClient(self._uri or None)
        run = self._kept(place) or self._created(record, place)
        self._run_id = run.info.run_id
        self._page = f"{self._server}/#/experiments/{run.info.experiment_id}/runs/{self._run_id}"
        if run.info.status != "RUNNING":  # the run was ended, but continues
            self._client.update_run(self._run_id, status="RUNNING")
        self._describe(run, record)
        known = self._client.get_metric_history(self._run_id, "loss")
        self._last = max((each.step for each in known), default=-1)
        for point in history:  # log points that MLflow did not get because of a kill
            self.logged(point)

    def logged(self, point: Point) -> None:
        step = int(point["step"])
        if step > self._last:
            self._log(metrics_of(point), step)
            self._last = step

    def finished(self, steps: int, evaluation: Mapping[str, object], report: pathlib.Path) -> None:
        self._log(final_metrics(evaluation), steps)
        self._client.log_artifact(self._run_id, str(report))
        self._client.set_terminated(self._run_id, "FINISHED")
        if self._page.startswith("http"):
            print(f"MLflow: {self._page}")

    def failed(self, error: str, *, was_asked: bool) -> None:
        self._client.set_tag(self._run_id, "penstock.ended", error)
        self._client.set_terminated(self._run_id, "KILLED" if was_asked else "FAILED")

    @property
    def _server(self) -> str:
        """Names the server without a secret: the run id is valid only there."""
        return redaction.public_uris(self._client.tracking_uri)

    def _kept(self, place: Place) -> Any | None:
        kept = place.recall()
        if kept.get("server") != self._server or kept.get("experiment") != self._experiment:
            return None
        try:
            return self._client.get_run(kept["run_id"])
        except library("mlflow.exceptions").MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":  # the run was deleted
                return None
            raise

    def _created(self, record: RunRecord, place: Place) -> Any:
        found = self._client.get_experiment_by_name(self._experiment)
        experiment = found.experiment_id if found else self._client.create_experiment(self._experiment)
        run = self._client.create_run(experiment, run_name=self._name or name_of(record, place))
        place.remember(run_id=run.info.run_id, server=self._server, experiment=self._experiment)
        return run

    def _describe(self, run: Any, record: RunRecord) -> None:
        """Logs parameters, tags and datasets that the run does not have yet: a parameter cannot be
        changed.
        """
        entities = library("mlflow.entities")
        parameters = [
            entities.Param(_named(key), str(value)[:_LONGEST_PARAMETER])
            for key, value in leaves(record.config)
            if _named(key) not in run.data.params
        ]
        tags = {
            "mlflow.source.name": record.command,
            "mlflow.source.type": "LOCAL",
            "penstock.strategy": f"{record.strategy}, replicas: {record.replicas}",
            "penstock.precision": record.precision["policy"],
            "penstock.dataset_digest": record.dataset_digest,
        }
        for first in range(0, len(parameters), _MOST_PARAMETERS):
            self._client.log_batch(self._run_id, params=parameters[first : first + _MOST_PARAMETERS])
        self._client.log_batch(
            self._run_id, tags=[entities.RunTag(name, text) for name, text in tags.items()]
        )
        if not run.inputs.dataset_inputs:
            inputs = [
                entities.Dataset(
                    pathlib.PurePath(directory).name, digest[:_LONGEST_DIGEST], "local", directory
                )
                for directory, digest in record.datasets
            ]
            self._client.log_inputs(self._run_id, [entities.DatasetInput(each, []) for each in inputs])

    def _log(self, metrics: Mapping[str, float], step: int) -> None:
        metric = library("mlflow.entities").Metric
        now_ms = int(1000 * time.time())
        found = [metric(_named(name), value, now_ms, step) for name, value in metrics.items()]
        self._client.log_batch(self._run_id, metrics=found)


def _named(name: str) -> str:
    return _NOT_OF_A_NAME.sub("_", name)
