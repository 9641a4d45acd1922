"""The Dockerfile copies what there is, all that the command needs, and the rehearsal runs its own lines."""

import shutil
import subprocess
import sys

import pytest

from tests.commands.deploy import dockerfile, recipes

PATH = recipes.CHECKOUT / "deploy/image/Dockerfile"


def steps(word: str) -> list[str]:
    return [step.rest for step in dockerfile.steps(PATH.read_text()) if step.word == word]


def test_lines_are_joined_and_comments_left_out():
    text = "# why\nFROM a\nRUN one \\\n    && two\n\nENV A=b\n"
    assert [(step.word, step.rest) for step in dockerfile.steps(text)] == [
        ("FROM", "a"),
        ("RUN", "one && two"),
        ("ENV", "A=b"),
    ]


def test_what_is_copied_exists():
    sources = [source for rest in steps("COPY") for source in rest.split()[:-1]]
    assert sources and [source for source in sources if not (recipes.CHECKOUT / source).exists()] == []


def test_the_requirements_are_installed_by_their_hashes():
    [default] = [rest.partition("=")[2] for rest in steps("ARG")]
    copied = " ".join(steps("COPY"))
    assert default in copied
    [install] = [rest for rest in steps("RUN") if "pip install" in rest]
    assert '--require-hashes --requirement "$REQUIREMENTS"' in install


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


def test_it_does_not_run_as_root():
    [user] = steps("USER")
    assert user.split(":")[0] not in ("0", "root")
