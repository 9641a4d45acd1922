"""What a trial says of commands that end well, and of commands that do not."""

import pathlib
import signal

import pytest

from tests.signals import trial
from tests.signals.cases import Case
from tests.signals.trial import Trial, Undisturbed

_WORKS = "while True: pass\n"
_GUARDED = f"""
import os, tempfile
from pipeline.base.cli import signals
handler = signals.handle_signals()
def work():
    {{}}
    {_WORKS}
handler.guard(work)
"""


def case(name: str, monkeypatch, tmp_path: pathlib.Path, body: str) -> Case:
    (tmp_path / f"{name}.py").write_text(body)
    monkeypatch.syspath_prepend(str(tmp_path))
    return Case(arguments=[name], output="--output", vouches="whole", identical=lambda result: {})


def faults(case: Case, folder: pathlib.Path) -> tuple[str, ...]:
    one = Trial(command="some", signal=signal.SIGTERM.name, moment="late", number=0)
    whole = Undisturbed(contents={}, cpu_forked=0.02, cpu_afresh=0.02)
    return trial.run(one, case, folder / "work", whole=whole, seed=0, commit="some").faults


@pytest.mark.parametrize(
    ("name", "does", "fault"),
    [
        ("clean", "pass", None),
        ("leaves_a_file", "tempfile.mkstemp(prefix='mine')", "left temporary/mine"),
        ("says_more", "os.write(2, b'a word\\n')", "2 lines: a word | interrupted: "),
    ],
)
def test_what_is_wrong_is_told(monkeypatch, tmp_path, name: str, does: str, fault: str | None):
    told = faults(case(name, monkeypatch, tmp_path, _GUARDED.format(does)), tmp_path)
    assert [each.startswith(fault) for each in told[:1]] == ([True] if fault else [])


def test_a_command_that_is_too_fast_is_told(monkeypatch, tmp_path):
    assert faults(case("too_fast", monkeypatch, tmp_path, "pass"), tmp_path) == (
        "ended 8 times before its signal",
    )
