"""Which Beam runner runs the job, with which options; and how a worker's InputError gets back."""

import argparse
import contextlib
import importlib
import logging
import pathlib
import re
import shlex
import sys
from collections.abc import Iterator, Sequence

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, SetupOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineResult, PipelineRunner, create_runner
from apache_beam.transforms.environments import SubprocessSDKEnvironment

from beam_jobs.launch import worker_wheel
from pipeline.data.commands import interrupt
from pipeline.data.errors import InputError

# How an InputError reads inside the text of a worker's traceback, which is all that crosses the runner.
_IN_TRACEBACK = re.compile(
    r"InputError: (?P<thing>.+?): received (?P<received>.+?); expected (?P<expected>.+?)\. "
    r"(?P<action>.+?)(?: \[while running [^\]]+\])?$",
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
        # A failure is told once, in one line; Beam and its job servers would log hundreds.
        logging.getLogger().setLevel(logging.CRITICAL)
    if name == "FnApiRunner":
        return _embedded_runner(options, worker_log=directory / "workers.log")
    if name == "DataflowRunner":
        _check_dataflow(options)
    # Workers in this process (LOOPBACK) ignore it; all others can get our code in no other way.
    setup = options.view_as(SetupOptions)
    setup.extra_packages = [*(setup.extra_packages or ()), str(worker_wheel.build(directory))]
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
            action="pip install --require-hashes -r requirements-gcp.txt",
        ) from None


def _embedded_runner(options: PipelineOptions, *, worker_log: pathlib.Path) -> FnApiRunner:
    direct = options.view_as(DirectOptions)
    if direct.direct_running_mode != "multi_processing":
        return FnApiRunner()
    # The workers that Beam starts by itself print every log line to the terminal.
    direct.direct_running_mode = "in_memory"
    worker = f"{shlex.quote(sys.executable)} -m apache_beam.runners.worker.sdk_worker_main"
    return FnApiRunner(
        default_environment=SubprocessSDKEnvironment.from_command_string(
            # A terminal sends Ctrl-C to workers too, and Beam would print their tracebacks.
            f"trap '' INT HUP; exec {worker} 2>> {shlex.quote(str(worker_log))}"
        )
    )


def run_to_end(pipeline: beam.Pipeline) -> None:
    """Runs it; a job on a service would outlive its launcher, so that an interrupt cancels it."""
    result = pipeline.run()
    try:
        result.wait_until_finish()
    except BaseException:
        if interrupt.has_come():
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
    """Raises a worker's InputError as itself, whatever the runner wrapped it in."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        found = _IN_TRACEBACK.search(str(error))
        if not found:
            raise
        parts = found.groupdict()
        raise InputError(parts.pop("thing"), **parts) from None


def unknown_flags(flags: Sequence[str]) -> list[str]:
    """Those of `flags` that are no Beam pipeline options."""
    parser = argparse.ArgumentParser(allow_abbrev=False, conflict_handler="resolve", add_help=False)
    for options in PipelineOptions.__subclasses__():
        options._add_argparse_args(parser)  # Beam only warns of unknown flags, deep in its log
    _, unknown = parser.parse_known_args(list(flags))
    return unknown
