"""Run events of OpenLineage, version 2-0-2: which datasets a run reads, by digest, and how it ends.

The format is that of https://openlineage.io/docs/spec/object-model, as JSON; no package is needed.
"""

import datetime
import http.client
import json
import os
import pathlib
import urllib.parse
import uuid
from collections.abc import Mapping, Sequence

from pipeline.base.errors import InputError
from pipeline.training.observers.observer import Observer, Place, Point, final_metrics, name_of
from pipeline.training.state.run_record import RunRecord

_PRODUCER = "https://pypi.org/project/penstock"
_SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FACETS = "https://openlineage.io/spec/facets"
_API_KEY = "OPENLINEAGE_API_KEY"
_SECONDS = 10.0  # the longest time that training waits for a server


class OpenLineage(Observer):
    """Sends START, or RUNNING if a killed run continues; then COMPLETE, FAIL, or ABORT after a signal.

    Args:
      url: receives each event as a POST, such as http://localhost:5000/api/v1/lineage. The key in the
        variable OPENLINEAGE_API_KEY is sent as a bearer token.
      file: receives each event as a line; if both are empty, `openlineage.jsonl` in the working directory
        does.
      namespace: namespace of the job.
    """

    def __init__(self, *, url: str = "", file: str = "", namespace: str = "penstock") -> None:
        if url and urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise InputError(
                "config.observers, openlineage, url",
                received="an address of another kind",
                expected="http://HOST/PATH or https://HOST/PATH",
                action="Correct it, or name a file.",
            )
        self._url, self._file, self._namespace = url, file, namespace
        self._run_id = ""
        self._record: RunRecord | None = None
        self._place: Place | None = None

    def started(self, record: RunRecord, place: Place, history: Sequence[Point]) -> None:
        self._record, self._place = record, place
        kept = place.recall()  # id of the run of a process that ended without an event
        self._run_id = kept.get("run_id") or str(uuid.uuid4())
        self._send("RUNNING" if kept.get("run_id") else "START")
        place.remember(run_id=self._run_id)

    def finished(self, steps: int, evaluation: Mapping[str, object], report: pathlib.Path) -> None:
        metrics = {"steps": steps, "metrics": final_metrics(evaluation)}
        self._send("COMPLETE", {"penstock_evaluation": {**_facet(""), **metrics}})
        self._place.remember()

    def failed(self, error: str, *, was_asked: bool) -> None:
        facet = {
            **_facet("1-0-1/ErrorMessageRunFacet.json#/$defs/ErrorMessageRunFacet"),
            "message": error,
            "programmingLanguage": "python",
        }
        self._send("ABORT" if was_asked else "FAIL", {"errorMessage": facet})
        self._place.remember()  # the run has ended: what continues is another run

    def _send(self, kind: str, facets: Mapping[str, object] | None = None) -> None:
        text = json.dumps(self._event(kind, facets or {}))
        if self._url:
            _post(self._url, text)
            return
        path = pathlib.Path(self._file) if self._file else self._place.workdir / "openlineage.jsonl"
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    def _event(self, kind: str, facets: Mapping[str, object]) -> dict[str, object]:
        record, place = self._record, self._place
        return {
            "eventType": kind,
            "eventTime": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
            "producer": _PRODUCER,
            "schemaURL": _SCHEMA,
            "run": {"runId": self._run_id, "facets": dict(facets)},
            "job": {
                "namespace": self._namespace,
                "name": name_of(record, place),
                "facets": {"jobType": _job_type()},
            },
            "inputs": [_dataset(directory, digest) for directory, digest in record.datasets],
            "outputs": [_dataset(str(place.workdir))],
        }


def _job_type() -> dict[str, str]:
    kinds = {"processingType": "BATCH", "integration": "PENSTOCK", "jobType": "TRAINING"}
    return {**_facet("2-0-3/JobTypeJobFacet.json#/$defs/JobTypeJobFacet"), **kinds}


def _dataset(directory: str, digest: str = "") -> dict[str, object]:
    version = {
        **_facet("1-0-1/DatasetVersionDatasetFacet.json#/$defs/DatasetVersionDatasetFacet"),
        "datasetVersion": digest,
    }
    return {"namespace": "file", "name": directory, "facets": {"version": version} if digest else {}}


def _facet(schema: str) -> dict[str, str]:
    return {"_producer": _PRODUCER, "_schemaURL": f"{_FACETS}/{schema}" if schema else _SCHEMA}


def _post(url: str, text: str) -> None:
    """Sends an event; raises OSError if the server does not accept it."""
    parts = urllib.parse.urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    key = os.environ.get(_API_KEY)
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    connection = kind(parts.hostname or "", parts.port, timeout=_SECONDS)
    try:
        connection.request(
            "POST", f"{parts.path or '/'}{'?' * bool(parts.query)}{parts.query}", text, headers
        )
        answer = connection.getresponse()
        if answer.status >= 300:
            raise OSError(f"{parts.hostname} answers {answer.status} {answer.reason}")
    finally:
        connection.close()
