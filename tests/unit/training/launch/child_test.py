"""A command that runs for another one."""

import json
import os
import pathlib
import signal

from pipeline.base.cli import signals
from pipeline.training.launch import child


def program(folder, text):
    (folder / "told.py").write_text(text)
    return ["told"]


def test_what_a_command_prints_goes_behind_what_is_in_the_log(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{pathlib.Path.cwd()}")
    log = tmp_path / "log"
    log.write_text("before\n")
    code = child.run(program(tmp_path, "print('done')"), log=log)
    assert (code, log.read_text()) == (0, "before\ndone\n")


def test_why_it_failed_is_its_error_line(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{pathlib.Path.cwd()}")
    text = "import sys; print('error: no such file', file=sys.stderr); print('bye'); sys.exit(2)"
    code = child.run(program(tmp_path, text), log=tmp_path / "log")
    assert code == 2
    assert child.why_failed(code, log=tmp_path / "log") == "no such file"
    assert not child.may_succeed_later(code)


def test_one_that_was_killed_may_succeed_later(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{pathlib.Path.cwd()}")
    text = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    code = child.run(program(tmp_path, text), log=tmp_path / "log")
    assert child.why_failed(code, log=tmp_path / "log") == "ended by SIGKILL"
    assert child.may_succeed_later(code)


def test_a_signal_is_passed_on(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{pathlib.Path.cwd()}")
    text = (
        "import json, pathlib, signal, sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n"  # it waits until it is asked for
        f"pathlib.Path({str(tmp_path / 'ready')!r}).touch()\n"
        "number = signal.sigwait({signal.SIGTERM})\n"
        f"pathlib.Path({str(tmp_path / 'seen')!r}).write_text(json.dumps(number))\n"
        "sys.exit(143)\n"
    )
    before = {*signals.descendants(os.getpid())}  # of other tests
    came = lambda: signal.SIGTERM if (tmp_path / "ready").exists() else 0  # noqa: E731
    assert child.run(program(tmp_path, text), log=tmp_path / "log", came=came) == 143
    assert json.loads((tmp_path / "seen").read_text()) == signal.SIGTERM
    assert {*signals.descendants(os.getpid())} <= before


def test_one_that_heard_a_signal_and_ended_may_succeed_later(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{pathlib.Path.cwd()}")
    text = f"import sys; sys.exit({128 + signal.SIGTERM})"  # as pipeline.export ends after SIGTERM
    assert child.may_succeed_later(child.run(program(tmp_path, text), log=tmp_path / "log"))
