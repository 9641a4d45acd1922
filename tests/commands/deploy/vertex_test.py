"""The job of Vertex AI calls the real command, ends well after 75, and is what both schedules start."""

import json
import subprocess

import pytest
from croniter import croniter

from tests.commands.deploy import recipes


@pytest.fixture
def root(tmp_path):
    recipes.on_hold(tmp_path / "taxi")
    return tmp_path / "taxi"


def read(name: str, root) -> dict:
    return json.loads(recipes.filled(f"vertex/{name}.json", recipes.settings(root)))


def pool(root) -> dict:
    [only] = read("custom_job", root)["jobSpec"]["workerPoolSpecs"]
    return only


def exit_code(root) -> int:
    """That of the container's command, here: on `root`, with this environment's Python."""
    container = pool(root)["containerSpec"]
    [script] = container["args"]
    local = script.replace("/mnt/nfs/penstock", str(root)).replace("python ", ".venv/bin/python ", 1)
    assert str(root) in local
    done = subprocess.run([*container["command"], local], cwd=recipes.CHECKOUT, check=False)
    return done.returncode


@pytest.mark.slow
def test_the_job_ends_well_where_all_is_as_it_should_be(root):
    assert exit_code(root) == 0


@pytest.mark.slow
def test_the_job_ends_well_where_another_is_at_work(root):
    with recipes.busy(root):
        assert exit_code(root) == 0


@pytest.mark.slow
def test_the_job_fails_where_a_person_must_correct_something(root):
    (root / "HOLD").unlink()
    assert exit_code(root) != 0


def test_the_exit_code_that_ends_well_is_the_codes(root):
    assert pool(root)["containerSpec"]["args"][0].endswith(f"|| [ $? -eq {recipes.AGAIN} ]")


def test_the_root_is_where_vertex_mounts_the_share(root):
    [mount] = pool(root)["nfsMounts"]
    assert f"--root=/mnt/nfs/{mount['mountPoint']} " in pool(root)["containerSpec"]["args"][0]


def test_the_schedule_starts_the_same_job_one_at_a_time(root):
    schedule = read("schedule", root)
    pipeline = schedule["createPipelineJobRequest"]["pipelineJob"]
    assert pipeline["runtimeConfig"]["parameterValues"] == {"job": read("custom_job", root)}
    assert croniter.is_valid(schedule["cron"])
    assert schedule["maxConcurrentRunCount"] == "1"
    [task] = pipeline["pipelineSpec"]["root"]["dag"]["tasks"].values()
    assert task["cachingOptions"] == {"enableCache": False}  # or the second call would not be made


def test_cloud_scheduler_creates_it_where_the_schedule_does(root):
    text = recipes.filled("cloud_scheduler/create_job", recipes.settings(root))
    parent = read("schedule", root)["createPipelineJobRequest"]["parent"]
    region = parent.rpartition("/")[2]
    assert f"--uri=https://{region}-aiplatform.googleapis.com/v1/{parent}/customJobs " in text


def test_cloud_scheduler_wants_the_job(root, tmp_path):
    script = tmp_path / "create_job"
    script.write_text(recipes.filled("cloud_scheduler/create_job", recipes.settings(root)))
    done = subprocess.run(["sh", script], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "the filled deploy/vertex/custom_job.json" in done.stderr
