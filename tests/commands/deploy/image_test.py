"""The Dockerfiles copy what there is, all that the command needs, and the rehearsal runs its own lines."""

import re
import shutil
import subprocess
import sys

import pytest

from tests.commands.deploy import dockerfile, recipes

IMAGES = ("Dockerfile", "Dockerfile.gpu")
of_each_image = pytest.mark.parametrize("image", IMAGES)


def steps(word: str, image: str = "Dockerfile") -> list[str]:
    text = (recipes.CHECKOUT / "deploy/image" / image).read_text()
    return [step.rest for step in dockerfile.steps(text) if step.word == word]


def test_lines_are_joined_and_comments_left_out():
    text = "# why\nFROM a\nRUN one \\\n    && two\n\nENV A=b\n"
    assert [(step.word, step.rest) for step in dockerfile.steps(text)] == [
        ("FROM", "a"),
        ("RUN", "one && two"),
        ("ENV", "A=b"),
    ]


@of_each_image
def test_what_is_copied_exists(image):
    sources = [source for rest in steps("COPY", image) for source in rest.split()[:-1]]
    assert sources and [source for source in sources if not (recipes.CHECKOUT / source).exists()] == []


def test_the_requirements_are_installed_by_their_hashes():
    [default] = [rest.partition("=")[2] for rest in steps("ARG")]
    copied = " ".join(steps("COPY"))
    assert default in copied
    [install] = [rest for rest in steps("RUN") if "pip install" in rest]
    assert '--require-hashes --requirement "$REQUIREMENTS"' in install


@of_each_image
def test_the_base_is_fixed(image):
    [base] = steps("FROM", image)
    assert re.fullmatch(r"debian:trixie-\d{8}-slim@sha256:[0-9a-f]{64}", base)


def test_the_image_for_gpus_has_the_locked_cuda():
    [install] = [rest for rest in steps("RUN", "Dockerfile.gpu") if "pip install" in rest]
    assert "--require-hashes --requirement requirements.txt --requirement requirements/gpu.txt" in install


@pytest.mark.slow
def test_what_is_copied_is_enough_to_answer(tmp_path):
    for rest in steps("COPY"):
        for source in rest.split()[:-1]:
            whole = recipes.CHECKOUT / source
            copy = shutil.copytree if whole.is_dir() else shutil.copy
            copy(whole, tmp_path / source)
    recipes.on_hold(tmp_path / "taxi")
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.retrain", "reconcile", f"--root={tmp_path}/taxi",
         "--config=pipeline/configs/retraining/base.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "held: nothing is done" in done.stdout


@of_each_image
def test_it_does_not_run_as_root(image):
    [user] = steps("USER", image)
    assert user.split(":")[0] not in ("0", "root")
