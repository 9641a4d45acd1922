"""How several processes end together: small ones stand for the workers, but for one run of two real ones."""

import contextlib
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

import pytest

from pipeline.base.cli import signals
from pipeline.base.cli.signals import Interrupted
from pipeline.base.errors import InputError
from pipeline.training.launch import child
from pipeline.training.launch import workers as workers_lib
from pipeline.training.launch.workers import Worker
from tests.shared.small_run import write_small_dataset

SAVES = "trap 'echo interrupted: saved at step 7 >&2; exit 130' INT; while :; do sleep 0.01; done"
WAITS = "read line"  # until it is killed: its stdin is a pipe to which nobody writes


@contextlib.contextmanager
def started(*scripts: str) -> Iterator[list[Worker]]:
    """A worker a shell script, the chief first."""
    waits, held = os.pipe()
    workers = []
    for number, script in enumerate(scripts):
        errors = tempfile.TemporaryFile() if number else None  # noqa: SIM115 - Worker.close closes it
        process = subprocess.Popen(
            ["sh", "-c", script],
            stdin=waits,
            stderr=errors or subprocess.PIPE,
            preexec_fn=_with_signals,
        )
        workers.append(Worker(number, f"host:{number}", process, errors=errors or process.stderr))
    yield workers
    for worker in workers:
        worker.close()
    os.close(waits)
    os.close(held)


def own(written: str) -> str:
    """Without what TensorFlow's threads of other tests write in this process."""
    return "".join(line for line in written.splitlines(keepends=True) if "data_service" not in line)


def errors(capfd: pytest.CaptureFixture[str]) -> str:
    return own(capfd.readouterr().err)


def _with_signals() -> None:
    # A shell cannot trap what is ignored when it starts, as by `pytest … &` in a script.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def to_the_end(*scripts: str) -> int:
    with started(*scripts) as workers:
        return workers_lib.Watch(workers).to_the_end()


def test_all_end_well(capfd):
    assert to_the_end("echo as alone", "echo never shown", "echo nor this >&2") == 0
    assert errors(capfd) == ""


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_killed_worker_ends_all_in_one_line_that_names_it(capfd, number):
    scripts = [WAITS] * 3
    scripts[number] = "kill -9 $$"
    with started(*scripts) as workers:
        watch = workers_lib.Watch(workers, clock=fast())
        assert watch.to_the_end() == 137
    (line,) = errors(capfd).splitlines()
    assert line.startswith(f"error: worker {number} (process {workers[number].pid}, host:{number}): ")
    assert "received SIGKILL" in line
    assert line.endswith("the same command goes on from the last checkpoint.")


def test_a_worker_that_hangs_is_killed_when_another_has_said_so(capfd):
    hangs = "kill -STOP $$"
    with started(
        "echo 'error: worker 1 of 2 (host:1): received no heartbeat' >&2; exit 138", hangs
    ) as workers:
        assert workers_lib.Watch(workers, clock=fast()).to_the_end() == 138
        assert workers[1].code == -signal.SIGKILL
    assert errors(capfd) == "error: worker 1 of 2 (host:1): received no heartbeat\n"


def test_bad_input_is_told_as_one_process_tells_it(capfd):
    told = "echo 'error: --config.train.steps: received -1' >&2; exit 2"
    assert to_the_end(told, told) == 2
    assert errors(capfd) == "error: --config.train.steps: received -1\n"


def test_what_a_worker_wrote_before_it_failed_is_shown(capfd):
    with started(WAITS, "echo 'Traceback: why' >&2; exit 1") as workers:
        assert workers_lib.Watch(workers, clock=fast()).to_the_end() == 1
    first, second = errors(capfd).splitlines()
    assert first == "Traceback: why"
    assert second.startswith("error: worker 1 (process")
    assert "received exit code 1;" in second


def test_warnings_of_the_chief_are_shown_at_once(capfd):
    assert to_the_end("echo 'a warning' >&2") == 0
    assert errors(capfd) == "a warning\n"


def test_a_signal_reaches_all_and_the_chief_says_how_it_ended(capfd):
    with pytest.raises(Interrupted, match=r"^saved at step 7$"), started(SAVES, SAVES) as workers:
        workers_lib.Watch(workers, came=lambda: signal.SIGTERM).to_the_end()
    assert errors(capfd) == ""


def test_a_signal_to_one_worker_reaches_all():
    with pytest.raises(Interrupted, match="saved at step 7"):
        to_the_end(SAVES, "exit 143")


def test_a_signal_while_they_wait_for_each_other_ends_all(capfd):
    with (
        pytest.raises(Interrupted, match="the workers were ended") as caught,
        started(WAITS, WAITS) as workers,
    ):
        workers_lib.Watch(workers, came=lambda: signal.SIGTERM).to_the_end()
    assert caught.value.number == signal.SIGTERM
    assert errors(capfd) == ""


def test_a_traceback_tells_more_than_the_abort_that_follows_from_it(capfd):
    with started("exit 1", "kill -ABRT $$") as workers:
        for worker in workers:
            worker._process.wait()
        assert workers_lib.Watch(workers, clock=fast()).to_the_end() == 1
    assert "error: worker 0" in errors(capfd)


def test_what_the_chief_finished_is_finished():
    assert to_the_end("exit 0", "kill -SEGV $$") == 0


def fast() -> Callable[[], float]:
    """A clock that goes half a minute further each time it is asked."""
    seconds = itertools.count(step=30.0)
    return lambda: next(seconds)


def test_no_worker_outlives_a_launcher_that_is_killed():
    member = "from pipeline.training.launch import member; member.end_with_launcher(0)"
    code = f"import signal; {member}; signal.pause()"
    launcher = f"""
import os, subprocess, sys
alive, held = os.pipe()
worker = subprocess.Popen([sys.executable, "-c", {code!r}], stdin=alive)
os.kill(os.getpid(), 9)
"""
    # The worker has the launcher's stdout, which ends when both have ended: else the time runs out.
    killed = subprocess.run([sys.executable, "-c", launcher], stdout=subprocess.PIPE, timeout=60)
    assert killed.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_two_workers_train_as_one_and_a_kill_ends_both(tmp_path, warm_python, monkeypatch, capfd):
    dataset = write_small_dataset(tmp_path / "tiny" / "1.0.0")
    monkeypatch.setattr(sys, "executable", str(warm_python))
    arguments = (
        *("pipeline.train", "--config=pipeline/configs/tabular.py"),
        f"--dataset={dataset.directory}",
        f"--workdir={tmp_path / 'run'}",
        *("--config.global_batch=16", "--config.train.steps=1000000", "--precision=float32"),
        *("--config.train.checkpoint_every_steps=4", "--config.train.steps_per_loop=2", "--workers=2"),
        "--config.train.jit_compile=true",
    )
    with workers_lib.running_workers(2, arguments) as workers:

        def kill_when_saved() -> int:
            if list(tmp_path.glob("run/checkpoints/step-????????")):
                workers[1].send(signal.SIGKILL)
            return 0

        assert workers_lib.Watch(workers, came=kill_when_saved).to_the_end() == 137
    told = capfd.readouterr()
    (line,) = own(told.err).splitlines()
    assert line.startswith(f"error: worker 1 (process {workers[1].pid}, localhost:")
    assert "strategy   multi_worker, replicas: 2, global batch 16" in told.out
    assert "XLA        off: asked for, but TensorFlow has no XLA for the sums over workers" in told.out
    assert "--workers=2" in json.loads((tmp_path / "run" / "run.json").read_text())["command"]


# --workers beside other flags, and on machines where it makes no sense.

FITS = {"strategy": "auto", "replicas": 2, "global_batch": 16}


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setattr(workers_lib, "_GPU", tmp_path / "none")


def test_what_fits_passes():
    workers_lib.check_workers(2, **FITS)
    workers_lib.check_workers(2, **FITS | {"strategy": "multi_worker"})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"strategy": "mirrored"}, r"--workers=2: received --strategy=mirrored too"),
        ({"global_batch": 15}, r"--config.global_batch: received 15; .*2 replicas. Set .*=16"),
        ({"global_batch": 0}, r"--config.global_batch: received 0"),
    ],
)
def test_what_does_not_is_refused(changed, message):
    with pytest.raises(InputError, match=message):
        workers_lib.check_workers(2, **FITS | changed)


def test_a_worker_of_a_cluster_starts_no_others(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{}")
    with pytest.raises(InputError, match=r"--workers=2: received environment variable TF_CONFIG too"):
        workers_lib.check_workers(2, **FITS)


def test_gpus_are_not_shared_out(monkeypatch):
    monkeypatch.setattr(workers_lib, "_GPU", pathlib.Path("/dev/null"))
    with pytest.raises(InputError, match=r"a machine with GPUs.*--strategy=mirrored"):
        workers_lib.check_workers(2, **FITS)


def test_no_more_than_memory_is_there_for(monkeypatch):
    monkeypatch.setattr(workers_lib, "_memory", lambda: 16 << 30)
    with pytest.raises(InputError, match=r"--workers=1000: received 1,000 processes.*expected at most 23"):
        workers_lib.check_workers(1_000, **FITS)


# A command that runs for another one.


@pytest.fixture
def program(tmp_path, monkeypatch) -> Callable[[str], list[str]]:
    """Writes a module of this text, and gives the command that runs it."""
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{pathlib.Path.cwd()}")

    def write(text: str) -> list[str]:
        (tmp_path / "told.py").write_text(text)
        return ["told"]

    return write


def test_what_a_command_prints_goes_behind_what_is_in_the_log(tmp_path, program):
    log = tmp_path / "log"
    log.write_text("before\n")
    code = child.run(program("print('done')"), log=log)
    assert (code, log.read_text()) == (0, "before\ndone\n")


def test_why_it_failed_is_its_error_line(tmp_path, program):
    text = "import sys; print('error: no such file', file=sys.stderr); print('bye'); sys.exit(2)"
    code = child.run(program(text), log=tmp_path / "log")
    assert code == 2
    assert child.why_failed(code, log=tmp_path / "log") == "no such file"
    assert not child.may_succeed_later(code)


def test_one_that_was_killed_may_succeed_later(tmp_path, program):
    text = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    code = child.run(program(text), log=tmp_path / "log")
    assert child.why_failed(code, log=tmp_path / "log") == "an end by SIGKILL"
    assert child.may_succeed_later(code)


def test_a_signal_is_passed_on(tmp_path, program):
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
    assert child.run(program(text), log=tmp_path / "log", came=came) == 143
    assert json.loads((tmp_path / "seen").read_text()) == signal.SIGTERM
    assert {*signals.descendants(os.getpid())} <= before


def test_one_that_heard_a_signal_and_ended_may_succeed_later(tmp_path, program):
    text = f"import sys; sys.exit({128 + signal.SIGTERM})"  # as pipeline.export ends after SIGTERM
    assert child.may_succeed_later(child.run(program(text), log=tmp_path / "log"))
