"""The manifests call the real commands, and make of each exit code what the code means by it."""

import json
import re

import pytest
import yaml
from croniter import croniter

from pipeline.base.errors import EXIT_BAD_INPUT
from tests.commands.deploy import recipes

JOB_SETS = ("tpu_jobset", "workers_jobset")


@pytest.fixture
def root(tmp_path):
    recipes.on_hold(tmp_path / "taxi")
    return tmp_path / "taxi"


def manifest(name: str, root) -> dict:
    return yaml.safe_load(recipes.filled(f"kubernetes/{name}.yaml", recipes.settings(root)))


def job(name: str, root) -> dict:
    """The spec of its Job."""
    spec = manifest(name, root)["spec"]
    if name == "cronjob":
        return spec["jobTemplate"]["spec"]
    [replicated] = spec["replicatedJobs"]
    return replicated["template"]["spec"]


def container(name: str, root) -> dict:
    [only] = job(name, root)["template"]["spec"]["containers"]
    return only


def test_the_command_is_answered(root):
    words = container("cronjob", root)["command"]
    assert recipes.answers(words).returncode == 0
    with recipes.busy(root):
        assert recipes.answers(words).returncode == recipes.AGAIN


def test_exit_codes_of_retraining(root):
    spec = job("cronjob", root)
    final, drained = spec["podFailurePolicy"]["rules"]
    assert (final["action"], final["onExitCodes"]["operator"]) == ("FailJob", "In")
    assert set(final["onExitCodes"]["values"]) == set(recipes.TOLD)
    assert (drained["action"], drained["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")
    assert spec["backoffLimit"] > 0  # of what no rule names, such as 75


def test_one_call_at_a_time(root):
    spec = manifest("cronjob", root)["spec"]
    assert croniter.is_valid(spec["schedule"])
    assert spec["concurrencyPolicy"] == "Forbid"


@pytest.mark.parametrize("name", JOB_SETS)
def test_a_job_set_stops_where_calling_again_changes_nothing(name, root):
    policy = manifest(name, root)["spec"]["failurePolicy"]
    [rule] = policy["rules"]
    assert (rule["action"], rule["onJobFailureReasons"]) == ("FailJobSet", ["PodFailurePolicy"])
    [final] = job(name, root)["podFailurePolicy"]["rules"]
    assert (final["action"], final["onExitCodes"]["values"]) == ("FailJob", [EXIT_BAD_INPUT])
    assert job(name, root)["backoffLimit"] == 0  # all begin again together, by maxRestarts
    assert policy["maxRestarts"] > 0


@pytest.mark.parametrize("name", ["cronjob", *JOB_SETS])
def test_a_policy_names_its_container_in_pods_that_it_applies_to(name, root):
    spec = job(name, root)
    named = spec["podFailurePolicy"]["rules"][0]["onExitCodes"]["containerName"]
    assert named == container(name, root)["name"]
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


@pytest.mark.parametrize("name", JOB_SETS)
def test_the_flags_of_training_are_known(name, root):
    done = recipes.answers(container(name, root)["command"])
    assert done.returncode == EXIT_BAD_INPUT
    assert re.search(r"error: .*spans/dataset", done.stderr)  # a wrong flag would be named before


def test_each_worker_is_named_as_job_sets_name_pods(root):
    found = manifest("workers_jobset", root)
    [replicated], network = found["spec"]["replicatedJobs"], found["spec"]["network"]
    spec = job("workers_jobset", root)
    worker, config = container("workers_jobset", root)["env"]
    assert worker["valueFrom"]["fieldRef"]["fieldPath"].endswith(
        "['batch.kubernetes.io/job-completion-index']"
    )
    for index in range(spec["completions"]):
        cluster = json.loads(config["value"].replace(f"$({worker['name']})", str(index)))
        assert cluster["task"] == {"type": "worker", "index": index}
        prefix = f"{found['metadata']['name']}-{replicated['name']}-0"
        assert cluster["cluster"]["worker"] == [
            f"{prefix}-{pod}.{network['subdomain']}:2222" for pod in range(spec["completions"])
        ]
    assert spec["parallelism"] == spec["completions"]


def test_a_slice_is_of_one_machine(root):
    assert job("tpu_jobset", root)["completions"] == 1
    environment = {each["name"]: each["value"] for each in container("tpu_jobset", root)["env"]}
    assert environment == {"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "localhost"}


@pytest.mark.parametrize("name", ["cronjob", *JOB_SETS])
def test_the_volume_is_where_the_root_is(name, root):
    [mount] = container(name, root)["volumeMounts"]
    [volume] = job(name, root)["template"]["spec"]["volumes"]
    assert (mount["mountPath"], mount["name"]) == (str(root), volume["name"])


@pytest.mark.parametrize("name", ["cronjob", *JOB_SETS])
def test_a_manifest_that_is_not_filled_is_no_yaml(name):
    with pytest.raises(yaml.YAMLError):
        yaml.safe_load((recipes.CHECKOUT / f"deploy/kubernetes/{name}.yaml").read_text())
