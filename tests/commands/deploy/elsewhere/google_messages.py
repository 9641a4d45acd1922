"""Reads the recipes as messages of Google's clients. Runs where those are installed.

  python google_messages.py CUSTOM_JOB.json SCHEDULE.json CREATE_JOB

Each becomes its message, goes over the wire format, and comes back as the same JSON: an unknown key or a
value of another type is refused, as each of PLANTED must be. The pipeline in the schedule is read by kfp's
types, and starts what Google's own component starts. What gcloud would ask for is built as Cloud Scheduler's
message.
"""

import copy
import json
import os
import pathlib
import shlex
import sys

from google.cloud import scheduler_v1
from google.cloud.aiplatform_v1 import types
from google.protobuf import duration_pb2, json_format
from google_cloud_pipeline_components.container.v1.gcp_launcher.utils import parser_util
from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp
from kfp.pipeline_spec import pipeline_spec_pb2

PLANTED = {
    "a key that there is not": ("displayNam", "a"),
    "a text that is a number": ("displayName", 7),
}


def main(custom_job: str, schedule: str, create_job: str) -> None:
    job, scheduled = (json.loads(pathlib.Path(path).read_text()) for path in (custom_job, schedule))
    print(f"CustomJob: {_same(job, types.CustomJob.pb())}")
    print(f"Schedule: {_same(scheduled, types.Schedule.pb())}")
    pipeline = scheduled["createPipelineJobRequest"]["pipelineJob"]
    print(f"PipelineSpec: {_pipeline(pipeline['pipelineSpec'])}")
    json_format.ParseDict(pipeline["runtimeConfig"]["parameterValues"]["job"], types.CustomJob.pb()())
    print(f"Cloud Scheduler's Job: {_scheduler_job(create_job, body=pathlib.Path(custom_job).read_bytes())}")


def _same(data: dict, message: type) -> str:
    """Raises ValueError where `data` does not come back, or a planted mistake is taken."""
    sent = json_format.ParseDict(data, message()).SerializeToString()
    if (back := json_format.MessageToDict(message.FromString(sent))) != data:
        raise ValueError(f"came back as {back}")
    for told, (key, value) in PLANTED.items():
        try:
            json_format.ParseDict(copy.deepcopy(data) | {key: value}, message())
        except json_format.ParseError:
            continue
        raise ValueError(f"not refused: {told}")
    return f"{len(sent)} bytes, nothing lost; refused: {', '.join(PLANTED)}"


def _pipeline(spec: dict) -> str:
    json_format.ParseDict(spec, pipeline_spec_pb2.PipelineSpec())
    [executor] = spec["deploymentSpec"]["executors"].values()
    ours = executor["container"]
    theirs = CustomTrainingJobOp.component_spec.implementation.container
    if (ours["image"], ours["command"]) != (theirs.image, list(theirs.command)):
        raise ValueError(f"Google's component starts {theirs.image} {theirs.command}")
    if _flags(ours["args"]) != _flags(theirs.args):
        raise ValueError(f"Google's component gives {theirs.args}")
    local = [os.devnull if "outputs" in word else word for word in ours["args"]]
    parser_util.parse_default_args(local)
    return f"kfp's types take it; it starts what CustomTrainingJobOp starts, {theirs.image}"


def _flags(words: list) -> list[str]:
    return [word for word in words if isinstance(word, str) and word.startswith("--")]


def _scheduler_job(path: str, *, body: bytes) -> str:
    words = shlex.split(pathlib.Path(path).read_text(), comments=True)
    flags = dict(word[2:].split("=", 1) for word in words if word.startswith("--"))
    job = scheduler_v1.Job(
        name=f"projects/{flags['project']}/locations/{flags['location']}/jobs/penstock-retrain",
        schedule=flags["schedule"],
        time_zone=flags["time-zone"],
        http_target=scheduler_v1.HttpTarget(
            uri=flags["uri"],
            http_method=scheduler_v1.HttpMethod[flags["http-method"]],
            headers=dict([flags["headers"].split("=", 1)]),
            body=body,
            oauth_token=scheduler_v1.OAuthToken(
                service_account_email=flags["oauth-service-account-email"], scope=flags["oauth-token-scope"]
            ),
        ),
        retry_config=scheduler_v1.RetryConfig(
            retry_count=int(flags["max-retry-attempts"]),
            min_backoff_duration=_seconds(flags["min-backoff"]),
            max_backoff_duration=_seconds(flags["max-backoff"]),
        ),
        attempt_deadline=_seconds(flags["attempt-deadline"]),
    )
    sent = scheduler_v1.Job.serialize(job)
    if scheduler_v1.Job.deserialize(sent) != job:
        raise ValueError("the job does not come back")
    return f"{len(sent)} bytes, of which {len(job.http_target.body)} are the custom job"


def _seconds(text: str) -> duration_pb2.Duration:
    duration = duration_pb2.Duration()
    duration.FromJsonString(text)
    return duration


if __name__ == "__main__":
    main(*sys.argv[1:])
