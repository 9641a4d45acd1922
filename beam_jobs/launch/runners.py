"""Makes the Beam runner and its options, and raises a worker's InputError in the launcher."""

import argparse
import base64
import contextlib
import ctypes
import errno
import hashlib
import importlib
import logging
import os
import pathlib
import re
import shlex
import signal
import sys
import tempfile
import threading
import traceback
import zipfile
from collections.abc import Iterator, Mapping, Sequence

import apache_beam as beam
import grpc
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, SetupOptions
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner, worker_handlers
from apache_beam.runners.portability.local_job_service import SubprocessSdkWorker
from apache_beam.runners.runner import PipelineResult, PipelineRunner, create_runner
from apache_beam.transforms.environments import SubprocessSDKEnvironment

from pipeline.base.cli import flags as flags_lib
from pipeline.base.cli import signals
from pipeline.base.errors import (
    FailedError,
    InputError,
    TryAgainError,
    disk_full,
    disk_is_full,
    lacking,
    shortage,
)

_WORKER_MODULE = "apache_beam.runners.worker.sdk_worker_main"
WORKER_DIED = "a worker process died"
_LOST = "its connection broke"
_SIGNAL = "exited with return code -"  # the words with which Beam reports a signal
_SECONDS_BETWEEN_LOOKS = 0.2

# An InputError in the text of a worker's traceback, which is all that crosses the runner.
_IN_TRACEBACK = re.compile(
    r"(?P<kind>InputError|TryAgainError): (?P<thing>.+?): received (?P<received>.+?); "
    r"expected (?P<expected>.+?)\. (?P<action>.+?)(?: \[while running [^\]]+\])?$",
    re.MULTILINE,
)


def pipeline_options(runner: str, flags: Sequence[str]) -> PipelineOptions:
    """Options for `runner`; raises InputError for flags that lose data."""
    # The runner is always named: Beam's default tries to download one and falls back silently.
    options = PipelineOptions([f"--runner={runner}", "--prism_log_level=error", *flags])
    if options.get_all_options()["direct_running_mode"] == "multi_threading":
        raise InputError(
            "--direct_running_mode",
            received="multi_threading",
            expected="in_memory or multi_processing",
            action="Beam 2.77 silently loses records in that mode (up to 1.4% in 5 of 5 runs); "
            "use --direct_running_mode=multi_processing --direct_num_workers=N.",
        )
    return options


def make_runner(name: str, options: PipelineOptions, *, directory: pathlib.Path) -> PipelineRunner:
    """The runner of that name, which may write into `directory`; raises InputError if there is none."""
    if name != "DataflowRunner":
        # A failure is reported once, in one line; Beam and its job servers would log hundreds.
        logging.getLogger().setLevel(logging.CRITICAL)
    if name == "FnApiRunner":
        return _embedded_runner(options, worker_log=directory / "workers.log")
    if name == "DataflowRunner":
        _check_dataflow(options)
    # Workers in this process (LOOPBACK) ignore it; all other workers can get our code in no other way.
    setup = options.view_as(SetupOptions)
    setup.extra_packages = [*(setup.extra_packages or ()), str(build_wheel(directory))]
    try:
        return create_runner(name)
    except (ValueError, ImportError, AttributeError) as error:
        raise InputError(
            "--runner",
            received=f"{name} ({error})",
            expected="the name of a Beam runner whose packages are installed",
            action="Use --runner=FnApiRunner, or install what it needs.",
        ) from None


def _check_dataflow(options: PipelineOptions) -> None:
    """Raises InputError for what Beam would only notice in the middle of a submission."""
    given = options.get_all_options()
    missing = [f"--{name}" for name in ("project", "region", "temp_location") if not given[name]]
    if missing:
        raise InputError(
            "--runner=DataflowRunner",
            received=f"no {', '.join(missing)}",
            expected="a project, a region and a gs:// location for temporary files",
            action="deploy/dataflow/README.md shows a whole command.",
        )
    try:
        importlib.import_module("apache_beam.io.gcp.gcsio")
    except ImportError as error:
        raise InputError(
            "--runner=DataflowRunner",
            received=str(error),
            expected="Beam with what it needs for Google Cloud",
            action="Install it: pip install -r requirements/gcp.txt, or 'penstock[gcp]'.",
        ) from None


def _embedded_runner(options: PipelineOptions, *, worker_log: pathlib.Path) -> FnApiRunner:
    direct = options.view_as(DirectOptions)
    if direct.direct_running_mode != "multi_processing":
        return FnApiRunner()
    # The workers that Beam starts by itself print every log line to the terminal.
    direct.direct_running_mode = "in_memory"
    worker = f"{shlex.quote(sys.executable)} -m {_WORKER_MODULE}"
    return FnApiRunner(
        default_environment=SubprocessSDKEnvironment.from_command_string(
            # A terminal sends Ctrl-C to workers too, and Beam would print their tracebacks.
            f"trap '' INT HUP; exec {worker} 2>> {shlex.quote(str(worker_log))}"
        )
    )


@worker_handlers.WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)
class _WorkerProcess(worker_handlers.SubprocessSdkWorkerHandler):
    """A worker process. It replaces Beam's own handler, which waits for ever for a worker that has died.

    Whatever waits for the answer of a dead worker gets an error, and the other workers are ended.
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self._closed = threading.Event()
        # Beam's own reader prints a traceback where the worker is gone.
        self.control_conn._read_thread = threading.Thread(target=self._read, daemon=True)

    def start_worker(self) -> None:
        self.worker = SubprocessSdkWorker(
            self._worker_command_line, self.control_address, self.provision_info, self.worker_id
        )
        self.worker_thread = threading.Thread(target=self._run, daemon=True)
        self.worker_thread.start()

    def close(self) -> None:
        self._closed.set()
        super().close()

    def _run(self) -> None:
        try:
            self.worker.run()
            died = "it ended"
        except Exception as error:  # either its exit code, or the error that it could not be started
            _never_free(error)
            died = str(error)
            if _SIGNAL not in died:
                died = " ".join((died, *self._last_line()))
        if self._closed.is_set():
            return
        # The cause of the first death, for all workers of this run.
        died = vars(self._grpc_server).setdefault("died", f"{WORKER_DIED} ({died})")
        _end_workers()
        while True:  # Beam may send one more request at this moment
            for request, future in list(self.control_conn._futures_by_id.items()):
                future.set(beam_fn_api_pb2.InstructionResponse(instruction_id=request, error=died))
            if self._closed.wait(_SECONDS_BETWEEN_LOOKS):
                return

    def _last_line(self) -> list[str]:
        """The last line of the log to which the command line directs stderr; it says why a worker ended."""
        log = pathlib.Path(shlex.split(self._worker_command_line.decode())[-1])
        return log.read_text(errors="replace").splitlines()[-1:] if log.is_file() else []

    def _read(self) -> None:
        with contextlib.suppress(grpc.RpcError):
            self.control_conn._read()


def _never_free(error: Exception) -> None:
    """Keeps what the frames of an error hold until the process ends.

    Where threads or memory run out, this may be a server of gRPC (1.85) whose thread could not start. To free
    it waits for ever, and with Python's lock, so that nothing else can end the process.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(error))


@contextlib.contextmanager
def _lost_connections_named(pipeline: beam.Pipeline) -> Iterator[None]:
    """Where a worker's connections broke before its death was noticed, raises an error that says so."""
    hook = threading.excepthook

    def told(failed: threading.ExceptHookArgs) -> None:
        if not issubclass(failed.exc_type, grpc.RpcError):
            hook(failed)

    threading.excepthook = told
    try:
        yield
    except Exception as error:
        _never_free(error)
        is_lost = isinstance(error, grpc.RpcError) or "Channel closed prematurely" in str(error)
        if is_lost and isinstance(pipeline.runner, FnApiRunner):
            raise RuntimeError(f"{WORKER_DIED} ({_LOST})") from None
        raise
    finally:
        threading.excepthook = hook


def _end_workers() -> None:
    """Ends the worker processes of this process: nobody waits for their work any more."""
    for pid in signals.descendants(os.getpid()):
        with contextlib.suppress(OSError):  # it has ended in the meantime
            if _WORKER_MODULE.encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)


def run_to_end(pipeline: beam.Pipeline) -> None:
    """Runs the job; an interrupt cancels it, because a job on a service would outlive its launcher."""
    with _lost_connections_named(pipeline):
        result = pipeline.run()
    try:
        result.wait_until_finish()
    except BaseException:
        if signals.signal_has_come():
            _cancel(result)
        raise


def _cancel(result: PipelineResult) -> None:
    try:
        result.cancel()
    except Exception as error:
        job = getattr(result, "job_id", lambda: "of this run")()
        print(f"error: the job {job} runs on: it could not be cancelled ({error})", file=sys.stderr)


@contextlib.contextmanager
def bad_input_from_workers() -> Iterator[None]:
    """Raises a worker's InputError or TryAgainError as itself, whatever the runner wrapped it in."""
    try:
        yield
        return
    except InputError:
        raise
    except Exception as error:
        found = _IN_TRACEBACK.search(str(error))
        if not found:
            raise
    # Raised outside the handler, because the wrapper's text is not the cause.
    parts = found.groupdict()
    kind = TryAgainError if parts.pop("kind") == TryAgainError.__name__ else InputError
    raise kind(parts.pop("thing"), **parts)


def unknown_flags(flags: Sequence[str]) -> list[str]:
    """Returns the `flags` that are no Beam pipeline options; raises InputError for an option given twice."""
    parser = argparse.ArgumentParser(allow_abbrev=False, conflict_handler="resolve", add_help=False)
    for options in PipelineOptions.__subclasses__():
        options._add_argparse_args(parser)  # Beam only warns of unknown flags, deep in its log
    _check_given_once(flags, parser)
    _, unknown = parser.parse_known_args(list(flags))
    return unknown


def _check_given_once(flags: Sequence[str], parser: argparse.ArgumentParser) -> None:
    seen: dict[str, str] = {}
    for flag in flags:
        name = flag.partition("=")[0]
        action = parser._option_string_actions.get(name)
        if type(action) not in (argparse._StoreAction, argparse._StoreTrueAction):
            continue  # the option takes several values, one for each flag
        if action.dest in seen:
            raise flags_lib.given_twice(name[2:], seen[action.dest], flag[2:])
        seen[action.dest] = flag[2:]


# --- One line for an error that ends a run: a full disk, a worker that died, a bug.


# A line of a worker's traceback that names an exception, without what Beam adds to it.
_CAUSE = re.compile(
    r"^(?P<cause>[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)\b.*?)(?: \[while running.*)?$", re.M
)


_KILLED = re.compile(rf"{WORKER_DIED} \((?:[^)]*{_SIGNAL}\d+|{_LOST})\)")
_MORE_MEMORY = (
    "Nothing was published; the same command may succeed. If memory ran out, give the machine more, or use "
    "fewer workers."
)


@contextlib.contextmanager
def one_line_errors(output: pathlib.Path | str) -> Iterator[None]:
    """Raises InputError in place of any other exception; the traceback of a bug is kept in a file."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if signals.signal_has_come():  # Beam reports the workers that were ended here as lost
            raise
        if disk_is_full(error):
            raise _no_room(output) from None
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            raise _name_too_long(output) from None
        if what := shortage(error, is_repeated=True):
            raise lacking(what, "the run", action=_MORE_MEMORY) from None
        if found := _KILLED.search(str(error)):
            raise _worker_killed(found[0]) from None
        raise _failed(f"{type(error).__name__}: {error}") from None


def _worker_killed(received: str) -> TryAgainError:
    return TryAgainError(
        "the run", received=received, expected="workers that end their work", action=_MORE_MEMORY
    )


def _no_room(output: pathlib.Path | str) -> InputError:
    return disk_full(
        f"--output={output}",
        room_for="about three times the input: the rows while they are shuffled, and the records",
        action="Nothing was published and nothing is left behind. Make room, or choose another disk.",
    )


def _name_too_long(output: pathlib.Path | str) -> InputError:
    return InputError(
        f"--output={output}",
        received="a file name that is too long for the file system",
        expected="one that it takes, commonly of at most 255 bytes",
        action="Nothing was published. Choose a shorter name.",
    )


def _failed(text: str) -> FailedError:
    causes = [found["cause"] for found in _CAUSE.finditer(text)]
    return FailedError(
        "the run",
        received=" ".join((causes[-1] if causes else text).split())[:300],
        expected="workers that end their work",
        action=f"Nothing was published. {_reported(text)}",
    )


def _reported(text: str) -> str:
    """Says how to report the fault: with the file of the traceback, if one can be written."""
    try:
        with tempfile.NamedTemporaryFile("w", prefix="penstock-", suffix=".log", delete=False) as log:
            log.write(f"{text}\n\n{traceback.format_exc()}")
    except OSError:  # the temporary directory is full, or there is none
        return "Report it; the traceback could not be kept."
    return f"Report it, with the whole traceback: {log.name}."


# --- The project's code as a wheel for remote workers.


_PACKAGES = ("beam_jobs", "models", "pipeline")
_NAME = "penstock"
# The oldest time that ZIP can store; a fixed time, so that the same code gives the same wheel.
_OLDEST = (1980, 1, 1, 0, 0, 0)


def build_wheel(directory: pathlib.Path) -> pathlib.Path:
    """Writes the wheel into `directory`, with no tool and no network, from a checkout or an installation.

    It declares no dependencies: the worker's image holds those (requirements/gcp.txt). Its version is the
    hash of the code, so that a worker never takes an older one for it.
    """
    code = _code()
    version = f"0+{_digest(code)}"
    information = f"{_NAME}-{version}.dist-info"
    described = {
        f"{information}/METADATA": f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: {version}\n".encode(),
        f"{information}/WHEEL": b"Wheel-Version: 1.0\nGenerator: penstock\nRoot-Is-Purelib: true\n"
        b"Tag: py3-none-any\n",
    }
    files = {**code, **described}
    path = directory / f"{_NAME}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            wheel.writestr(zipfile.ZipInfo(name, _OLDEST), content, zipfile.ZIP_DEFLATED)
        wheel.writestr(zipfile.ZipInfo(f"{information}/RECORD", _OLDEST), _record(files, information))
    return path


def _code() -> dict[str, bytes]:
    """Content of every module by its path in the wheel, in path order."""
    root = pathlib.Path(__file__).parents[2]
    paths = sorted(path for package in _PACKAGES for path in (root / package).rglob("*.py"))
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def _digest(code: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in code.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


def _record(files: Mapping[str, bytes], information: str) -> str:
    lines = []
    for name, content in files.items():
        encoded = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={encoded},{len(content)}")
    return "\n".join([*lines, f"{information}/RECORD,,", ""])
