"""Reads manifests as the Kubernetes client's types and JobSet's schema have them. Runs where `kubernetes` is.

  python kubernetes_types.py --crd=jobset.yaml MANIFEST…

A CronJob becomes a V1CronJob and comes back: a key that the types do not know would be lost on the way. So
does the Job in a JobSet. The JobSet itself, for which the client has no type, is held to the schema of its
CustomResourceDefinition, in which no other key may stand. Then each of PLANTED must be refused.
"""

import argparse
import copy
import json
import pathlib
from collections.abc import Callable, Iterator

import jsonschema
import yaml
from kubernetes import client

# A path in the manifest's first Job, and what is put there.
PLANTED = {
    "a key that there is not": ("podFailurPolicy", {"rules": []}),
    "a number that is a word": ("backoffLimit", "often"),
    "a rule without an action": ("podFailurePolicy", {"rules": [{"onPodConditions": []}]}),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--crd", type=pathlib.Path, required=True)
    parser.add_argument("manifests", nargs="+", type=pathlib.Path)
    asked = parser.parse_args()
    schema = closed(yaml.safe_load(asked.crd.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    for path in asked.manifests:
        manifest = yaml.safe_load(path.read_text())
        check = _cron_job if manifest["kind"] == "CronJob" else lambda found: _job_set(found, schema)
        check(manifest)
        refused = ", ".join(refusals(manifest, check))
        print(f"{path.name}: typed as {manifest['kind']}, nothing lost; refused: {refused}")


def _cron_job(manifest: dict) -> None:
    as_typed(manifest, "V1CronJob")


def _job_set(manifest: dict, schema: dict) -> None:
    jsonschema.validate(manifest, schema)
    for job in manifest["spec"]["replicatedJobs"]:
        as_typed(job["template"], "V1JobTemplateSpec")


def as_typed(data: dict, kind: str) -> None:
    """Raises ValueError where `data` is no `kind`, or has a key that the type does not know."""
    api = client.ApiClient()
    typed = api.deserialize(json.dumps(data), kind, "application/json")
    if (back := api.sanitize_for_serialization(typed)) != data:
        raise ValueError(f"{kind}: came back as {back}")


def closed(schema: dict) -> dict:
    """The schema, in whose objects with named keys no other may stand, as Kubernetes prunes them."""
    shut = {key: closed(value) if isinstance(value, dict) else value for key, value in schema.items()}
    is_object = isinstance(shut.get("properties"), dict) and shut.get("type") == "object"
    if is_object and not shut.get("x-kubernetes-preserve-unknown-fields") and shut.get("properties"):
        # apiVersion, kind and what an object is called are Kubernetes' own, in every resource.
        shut.setdefault("additionalProperties", False)
    if shut.get("x-kubernetes-int-or-string"):
        shut["type"] = ["integer", "string"]
    return shut


def refusals(manifest: dict, check: Callable[[dict], None]) -> Iterator[str]:
    """What of PLANTED is refused; raises ValueError where one is not."""
    for told, (key, value) in PLANTED.items():
        wrong = copy.deepcopy(manifest)
        _job(wrong)[key] = value
        try:
            check(wrong)
        except (ValueError, TypeError, jsonschema.ValidationError):
            yield told
        else:
            raise ValueError(f"not refused: {told}")


def _job(manifest: dict) -> dict:
    spec = manifest["spec"]
    if manifest["kind"] == "CronJob":
        return spec["jobTemplate"]["spec"]
    return spec["replicatedJobs"][0]["template"]["spec"]


if __name__ == "__main__":
    main()
