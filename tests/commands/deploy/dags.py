"""The DAG by `airflow dags test`, on roots for which the real command answers 0, 75 and 2, and on the demo's.

Between tries it waits a second here, where the recipe has minutes.
"""

import contextlib
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

from tests.commands.deploy import environments, recipes

NEEDS = ()
DAG = "airflow/penstock_retrain.py"
_REQUIREMENTS = ("apache-airflow==3.3.2",)
_WAITS = "datetime.timedelta(minutes=2)"
_STARTED, _SUCCEEDED = "Task started ", "new_state=success"
_MOST_S = 300


def check(folder: pathlib.Path) -> Iterator[str]:
    """Installs below `folder`; yields what was seen. Raises ValueError where a run ends otherwise."""
    python = environments.python_with(_REQUIREMENTS, folder / "airflow")
    roots = folder / "roots"
    shutil.rmtree(roots, ignore_errors=True)
    (roots / "dags").mkdir(parents=True)
    airflow = _Airflow(program=python.parent / "airflow", folder=roots)
    airflow.asked("db", "migrate")
    yield f"airflow {airflow.asked('version').strip()}"

    recipes.on_hold(roots / "held")
    yield airflow.run("held", until="held: nothing is done").told(succeeded=True, tries=1)

    recipes.on_hold(roots / "busy")
    with contextlib.ExitStack() as others:
        others.enter_context(recipes.busy(roots / "busy"))
        run = airflow.run("busy", until="AirflowException: exit code 75", then=others.close)
    yield run.told(succeeded=True, tries=2)

    (roots / "incomplete").mkdir()
    run = airflow.run("incomplete", until="AirflowFailException: exit code 2")
    yield run.told(succeeded=False, tries=1)

    _three_days(roots / "taxi")
    yield airflow.run("taxi", until="PROMOTE, version 1 is served").told(succeeded=True, tries=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Run:
    """A run of the DAG on `root`: what it printed, and the line that was waited for, if it came."""

    root: str
    printed: str
    found: str

    def told(self, *, succeeded: bool, tries: int) -> str:
        """How it ended; raises ValueError where that was otherwise."""
        ended = _SUCCEEDED in self.printed
        tried = self.printed.count(_STARTED)
        if not self.found or ended is not succeeded or tried != tries:
            raise ValueError(f"{self.root}: success {ended}, {tried} tries\n{self.printed[-3000:]}")
        word = "success" if ended else "failed"
        return f"{self.root}: {self.found!r}, {word} after {tried} tries"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Airflow:
    """An Airflow whose home, database and DAGs are in `folder`."""

    program: pathlib.Path
    folder: pathlib.Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "AIRFLOW_HOME": str(self.folder / "home"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.folder / "dags"),
        }

    def asked(self, *arguments: str) -> str:
        return subprocess.run(
            [self.program, *arguments], env=self.environment, check=True, capture_output=True, text=True
        ).stdout

    def run(self, root: str, *, until: str, then: Callable[[], None] = lambda: None) -> _Run:
        """Runs the DAG on the root of that name to its end; `then` is called when `until` is printed."""
        recipe = recipes.filled(DAG, recipes.settings(self.folder / root))
        if _WAITS not in recipe:
            raise ValueError(f"{DAG} does not have {_WAITS}")
        path = self.folder / "dags" / "penstock_retrain.py"
        path.write_text(recipe.replace(_WAITS, "datetime.timedelta(seconds=1)"))
        printed, found = [], ""
        for line in self._lines("dags", "test", "penstock_retrain", f"--dagfile-path={path}"):
            printed.append(line)
            if until in line and not found:
                found = until
                then()
        return _Run(root=root, printed="".join(printed), found=found)

    def _lines(self, *arguments: str) -> Iterator[str]:
        with subprocess.Popen(
            [self.program, *arguments], env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            timer = threading.Timer(_MOST_S, process.kill)
            timer.start()
            yield from process.stdout
            timer.cancel()


def _three_days(root: pathlib.Path) -> None:
    """The demo's first days with their schema: enough for a first model."""
    for day in (1, 2, 3):
        _ours("-m", "demo.spans", f"--day={day}", f"--output={root}/raw")
    _ours(
        "-m", "beam_jobs.infer_schema", f"--input={root}/raw", "--label=big_tip", "--name=trips",
        f"--output={root}/schema.json",
    )  # fmt: skip


def _ours(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], cwd=recipes.CHECKOUT, check=True, stdout=subprocess.DEVNULL)
