"""Every Beam engine that runs on one machine, and how a conversion asks for it."""

import dataclasses
import json
import os
import pathlib

ROOT = pathlib.Path(__file__).parents[2]
INSTALLED = ROOT / "build" / "engines"  # by `make engines`
PRISM = INSTALLED / "prism"
BOOT = INSTALLED / "boot"  # what a PROCESS worker starts with: Beam's own, from its Python container
WORKER = INSTALLED / "worker"  # an environment with what workers need, and without this project
FLINK = INSTALLED / "flink" / "job-server.jar"
SPARK = INSTALLED / "spark" / "job-server.jar"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Engine:
    name: str
    mode: str
    flags: tuple[str, ...]
    needs: tuple[pathlib.Path, ...] = ()

    @property
    def missing(self) -> str:
        """What of its needs is not installed; empty if all is there."""
        absent = [str(path.relative_to(ROOT)) for path in self.needs if not path.exists()]
        return f"{self.name} is not installed (no {', '.join(absent)}): run `make engines`" if absent else ""


def _embedded(processes: int) -> Engine:
    several = (f"--direct_num_workers={processes}", "--direct_running_mode=multi_processing")
    return Engine(
        name="FnApiRunner",
        mode=f"{processes} process" + ("es" if processes > 1 else ""),
        flags=several if processes > 1 else (),
    )


def _in_worker_environment() -> tuple[str, ...]:
    """Workers as processes of an environment that has nothing but what the job stages."""
    variables = {
        "PATH": f"{WORKER / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": "",
        # Beam's boot would make an environment of its own below /opt.
        "RUN_PYTHON_SDK_IN_DEFAULT_ENVIRONMENT": "1",
    }
    config = json.dumps({"command": str(BOOT), "env": variables})
    return "--environment_type=PROCESS", f"--environment_config={config}"


REFERENCE = _embedded(1)
_PRISM_FLAGS = ("--runner=PrismRunner", f"--prism_location={PRISM}")
_FLINK_FLAGS = ("--runner=FlinkRunner", f"--flink_job_server_jar={FLINK}")
_SPARK_FLAGS = ("--runner=SparkRunner", f"--spark_job_server_jar={SPARK}")
LOOPBACK_ENGINES = (
    Engine(name="PrismRunner", mode="LOOPBACK", flags=_PRISM_FLAGS, needs=(PRISM,)),
    Engine(name="FlinkRunner", mode="LOOPBACK", flags=_FLINK_FLAGS, needs=(FLINK,)),
    Engine(name="SparkRunner", mode="LOOPBACK", flags=_SPARK_FLAGS, needs=(SPARK,)),
)
PROCESS_ENGINES = tuple(
    Engine(
        name=name,
        mode="PROCESS",
        flags=(*flags, *_in_worker_environment()),
        needs=(needed, BOOT, WORKER / ".installed"),
    )
    for name, flags, needed in (
        ("FlinkRunner", _FLINK_FLAGS, FLINK),
        ("SparkRunner", _SPARK_FLAGS, SPARK),
    )
)
# Its flags are known once the stand-ins for Google's services run: tests/soak/fake_dataflow.py.
DATAFLOW = Engine(name="DataflowRunner", mode="replayed", flags=(), needs=(WORKER / ".installed",))
ENGINES = (REFERENCE, _embedded(2), _embedded(4), *LOOPBACK_ENGINES, *PROCESS_ENGINES, DATAFLOW)
