"""What a person sees: every command on a terminal of 80 and of 120 columns."""

import pathlib
import re
import shlex
from collections.abc import Mapping

import numpy as np
import pytest

from pipeline.base.errors import EXIT_BAD_INPUT
from tests.shared import terminal
from tests.shared.terminal import Screen

CONFIG = "--config=pipeline/configs/tabular.py"
SMALL = ("--config.global_batch=16", "--config.train.steps=6", "--config.train.log_every_steps=2")
# In this order: `{}` is the folder of all, and the code with which a command ends follows where it is not 0.
COMMANDS = {
    "beam_jobs.infer_schema": (["--input={}/rows.csv", "--label=rich", "--output={}/schema.json"], 0),
    "beam_jobs.convert": (["--input={}/rows.csv", "--schema={}/schema.json", "--output={}/data"], 0),
    "beam_jobs.verify": (["{}/data"], 0),
    "pipeline.index": (["--check", "{}/data/rows-train.tfrecord-00000-of-00001"], 0),
    "pipeline.feed_rate": ([CONFIG, "--dataset={}/data", "--seconds=0.1"], 0),
    "pipeline.train": ([CONFIG, "--dataset={}/data", "--workdir={}/a run", *SMALL], 0),
    "pipeline.replay": (["--workdir={}/a run", "--step=3"], 0),
    "pipeline.parity": (["--workdir={}/a run"], 0),
    "pipeline.conform": ([CONFIG, "--dataset={}/data", "--config.global_batch=16"], 0),
    "pipeline.export": (["--workdir={}/a run", "--output={}/export"], 0),
    "pipeline.evaluate": (["--model={}/export", "--dataset={}/data"], 0),
    "pipeline.generate": (["--model={}/export", "--prompt=The"], EXIT_BAD_INPUT),  # it is of another task
    "beam_jobs.predict": (["--model={}/export", "--input={}/rows.csv", "--output={}/predicted"], 0),
    "pipeline.retrain": (
        ["plan", "--config=tests/shared/small_retraining.py", "--root={}/none"],
        EXIT_BAD_INPUT,
    ),
    "pipeline.data_service": (["--port=five"], EXIT_BAD_INPUT),
}
QUICK = 4  # commands that need no TensorFlow
_BAR = re.compile(r"(?:[\w ]+: )? *\d+%\|[^|]*\| \S+ \[[^]]*\]?")
Screens = dict[str, tuple[int, Screen]]


def screens(
    folder: pathlib.Path,
    python: pathlib.Path,
    *,
    columns: int,
    count: int = len(COMMANDS),
    env: Mapping[str, str] | None = None,
) -> Screens:
    """Returns the exit codes and screens of the first `count` commands, by name."""
    numbers = np.random.default_rng(0).normal(size=(300, 2)).round(3)
    lines = [f"{x},{y},{'yes' if x + y > 0 else 'no'}" for x, y in numbers.tolist()]
    (folder / "rows.csv").write_text("\n".join(["age,height,rich", *lines, ""]))
    return {
        name: terminal.run(
            [python, "-m", name, *(argument.format(folder) for argument in arguments)],
            columns=columns,
            env=env,
        )
        for name, (arguments, _) in list(COMMANDS.items())[:count]
    }


def require_clean(name: str, code: int, screen: Screen) -> None:
    """Requires that a command ended as it should, and that its bars stand alone on lines that they fit."""
    assert code == COMMANDS[name][1], screen.text
    assert not screen.obeyed
    assert not re.search(r"\\[rx]|Traceback", screen.text), screen.text
    for line in (*screen.frames, *screen.lines):
        assert "%|" not in line or _BAR.fullmatch(line), line


@pytest.fixture(scope="module", params=[80, 120])
def quick(
    request: pytest.FixtureRequest,
    python_without_tensorflow: pathlib.Path,
    without_tensorflow: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Screens:
    folder = tmp_path_factory.mktemp("quick")
    python, env = python_without_tensorflow, without_tensorflow
    return screens(folder, python, columns=request.param, count=QUICK, env=env)


@pytest.fixture(scope="module", params=[80, 120])
def whole(
    request: pytest.FixtureRequest, warm_python: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Screens:
    return screens(tmp_path_factory.mktemp("whole"), warm_python, columns=request.param)


@pytest.mark.parametrize("name", list(COMMANDS)[:QUICK])
def test_screens_of_commands_without_tensorflow(name: str, quick: Screens):
    require_clean(name, *quick[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", list(COMMANDS)[QUICK:])
def test_screens_of_other_commands(name: str, whole: Screens):
    require_clean(name, *whole[name])


@pytest.mark.slow
def test_training_is_seen_to_go_on_and_its_export_line_works_as_it_stands(whole: Screens):
    _, screen = whole["pipeline.train"]
    assert [step for step in ("2/6", "4/6", "6/6") if any(f" {step} [" in each for each in screen.frames)]
    assert any(line.startswith("step 6/6  ") for line in screen.lines)
    (first,) = [at for at, line in enumerate(screen.lines) if line.startswith("export: ")]
    line = "".join(each.ljust(screen.columns) for each in screen.lines[first:])  # which the terminal broke
    command = shlex.split(line.removeprefix("export: "))
    assert command[:3] == ["python", "-m", "pipeline.export"]
    assert all(" run" in each for each in command[3:])
