"""Compiles a training step for a TPU that is not there, with libtpu's compiler: a process of its own.

  python -m pipeline.forecast.compiler PROGRAM TOPOLOGY REPLICAS

PROGRAM is a file with a serialised HloModuleProto, as TensorFlow lowers it. TOPOLOGY is for example v5e:2x4,
and REPLICAS of its devices run the program together. The last line of stdout is a JSON object with the fields
of `Compiled`. The compiler may take minutes, abort the process or take all memory: so whoever calls it gives
it a process and a time limit (`compile_for`).

The calls of jaxlib are those of jax 0.10.2 with libtpu 0.0.42.1: later versions of libtpu end the process on
a tpu7x.
"""

import contextlib
import ctypes
import dataclasses
import hashlib
import importlib.metadata
import importlib.util
import json
import math
import os
import pathlib
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib import import_module  # for packages that requirements.txt does not have

import numpy as np

from pipeline.base import files
from pipeline.base.errors import InputError
from pipeline.forecast import traffic

FITS, TOO_LARGE, FAILED, TIMED_OUT = "fits", "too large", "failed", "timed out"
ENDED = "the compiler's process ended"
_PACKAGES = ("jax", "libtpu")  # their versions decide an answer
_NEEDED = ("jax", "jaxlib", "libtpu")
_LEAST_EFFORT = -1.0
_ANSWERS = 6  # form of what is kept in a cache
# libtpu looks for the machine that it runs on; these tell it that there is none.
_ENVIRONMENT = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "JAX_PLATFORMS": "cpu",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
}
# Its threads have stacks of 1 MB, which overflow for some convolutions on a tpu7x (DeiT-Ti, MiT-B0).
_STACK = f"--fibers_default_thread_stack_size={32 << 20}"
# "Used 20.5G of 15.75G hbm", and "HLO temporaries (17.90G) exceeds available HBM (15.75G)"
_MEMORY = re.compile(
    r"(?:Used |\()([\d.]+)([KMGT]?)\)?(?: of | exceeds available HBM \()([\d.]+)([KMGT]?)", re.IGNORECASE
)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compiled:
    """What the compiler says of a program, of one device. All are its estimates.

    Attributes:
      verdict: FITS, TOO_LARGE, FAILED, TIMED_OUT or ENDED.
      message: what the compiler says, where it does not fit.
      peak_bytes: memory at the worst moment. Where it does not fit: what it would need, if that is known.
      limit_bytes: memory of the device, where the compiler says it.
      argument_bytes: weights, state of the optimizer and batch.
      flops: what a step computes.
      accessed_bytes: what it reads from the device's memory and writes to it, at most.
      collectives: bytes that a device puts into operations with other devices, by their kind.
      collective_operations: how many such operations a step has.
      cycles: cycles of a step, by the scope of the operation that spends them.
      loops: loops of the program. Of each, all these counts hold one round.
      seconds: how long the compilation took.
      reckoned_from: examples of the smaller batch that was compiled instead; 0: this one was compiled.
    """

    verdict: str
    message: str = ""
    peak_bytes: float = 0.0
    limit_bytes: float = 0.0
    argument_bytes: float = 0.0
    flops: float = 0.0
    accessed_bytes: float = 0.0
    collectives: Mapping[str, int] = dataclasses.field(default_factory=dict)
    collective_operations: int = 0
    cycles: Mapping[str, int] = dataclasses.field(default_factory=dict)
    loops: int = 0
    seconds: float = 0.0
    reckoned_from: int = 0


def require_installed() -> None:
    """Raises InputError where the compiler's packages are missing."""
    missing = [
        name
        for name in _NEEDED  # a package of another name, such as libtpu-nightly, has no version that is known
        if importlib.util.find_spec(name) is None or not any(importlib.metadata.distributions(name=name))
    ]
    if missing:
        raise InputError(
            "--target of a TPU",
            received=f"a Python environment without {', '.join(missing)}",
            expected="the optional packages that hold the compiler",
            action="Install them: pip install -r requirements/preflight.txt, or 'penstock[preflight]'.",
        )


def compile_for(
    program: bytes,
    topology: str,
    *,
    timeout_s: float,
    cache: pathlib.Path | None,
    replicas: int = 1,
    is_quick: bool = False,
) -> Compiled:
    """Compiles in a process of its own, or takes what the cache has of the same program and versions.

    Args:
      replicas: devices of the topology that run the program together.
      is_quick: whether the compiler makes the least effort, in a quarter of the time. Then only the memory
        means something: it was within 3% of the other.
    """
    key = _key(program, topology, replicas, is_quick)
    kept = cache / f"{key}.json" if cache else None
    if kept and (answer := _kept_answer(kept)):
        return answer
    with tempfile.TemporaryDirectory(prefix="penstock-preflight-") as folder:
        file = pathlib.Path(folder) / "step.hlo"
        file.write_bytes(program)
        compiled = _in_process(file, topology, replicas, timeout_s=timeout_s, is_quick=is_quick)
    if kept and compiled.verdict in (FITS, TOO_LARGE):  # a broken installation fails, too, and is repaired
        _keep(kept, compiled)
    return compiled


def _keep(file: pathlib.Path, compiled: Compiled) -> None:
    """Writes an answer for later runs; where that fails, this run still has it.

    Several runs may write the same answer at once, each with a temporary file of its own.
    """
    content = json.dumps(dataclasses.asdict(compiled)).encode()
    with contextlib.suppress(OSError):
        files.write_bytes(file, content, draft=file.with_name(f"{file.name}.{secrets.token_hex(4)}"))


def _kept_answer(file: pathlib.Path) -> Compiled | None:
    """The answer in a file of the cache; None if there is none, or a damaged one, or one of another form."""
    try:
        return Compiled(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _key(program: bytes, topology: str, replicas: int, is_quick: bool) -> str:
    versions = [importlib.metadata.version(name) for name in _PACKAGES]
    parts = [
        _ordered(program),
        f"{topology} {replicas} {is_quick} {_ANSWERS}".encode(),
        *map(str.encode, versions),
    ]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


# Entries of a map of a product, which TensorFlow (2.21) serialises in another order in each process.
_GRADIENTS = re.compile(rb"(?:\n[\x0e\x0f]\n\x06grad_[xy]\x12[\x04\x05](?:true|false)){2}")


def _ordered(program: bytes) -> bytes:
    """The program with such entries in one order: the same for the same program."""
    return _GRADIENTS.sub(lambda found: b"\n".join(sorted(re.split(rb"\n(?=[\x0e\x0f])", found[0]))), program)


def _in_process(
    file: pathlib.Path, topology: str, replicas: int, *, timeout_s: float, is_quick: bool = False
) -> Compiled:
    command = [sys.executable, "-m", __name__, str(file), topology, str(replicas), str(int(is_quick))]
    own = f"{os.environ.get('LIBTPU_INIT_ARGS', '')} {_STACK}".strip()
    environment = {**os.environ, **_ENVIRONMENT, "LIBTPU_INIT_ARGS": own}
    try:
        ended = subprocess.run(command, env=environment, capture_output=True, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return Compiled(verdict=TIMED_OUT, message=f"no answer within {timeout_s:g} s", seconds=timeout_s)
    lines = ended.stdout.decode(errors="replace").strip().splitlines()
    if ended.returncode or not lines:
        reason = f"exit code {ended.returncode}" if ended.returncode >= 0 else f"signal {-ended.returncode}"
        said = last_words(ended.stderr.decode(errors="replace"))
        return Compiled(verdict=ENDED, message=f"{reason}: {said}")
    return Compiled(**json.loads(lines[-1]))


_CAUSE = re.compile(r"\*\*\* SIG|Check fail|^F\d{4} |Error: ")
_PREFIX = re.compile(r"^[IWEF]\d{4} \S+ +\d+ \S+\] ")


def last_words(said: str) -> str:
    """The line that names the cause of a process's end, or else its last one."""
    lines = [line for line in said.splitlines() if line.strip()]
    causes = [line for line in lines if _CAUSE.search(line)]
    return _PREFIX.sub("", (causes or lines or ["it said nothing"])[-1]).strip()


# --- In the process of the compiler: jaxlib's own modules, which have no public interface for this.


_PR_SET_PDEATHSIG = 1  # of Linux's prctl


def _end_with_parent() -> None:
    """Has the kernel end this process when its parent ends, also if that one is killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _compiled(program: bytes, topology: str, replicas: int, *, is_quick: bool) -> Compiled:
    began = time.monotonic()
    try:
        executable = _executable(program, topology, replicas, is_quick=is_quick)
    except Exception as error:  # jaxlib raises its own, of no common kind
        text = str(error)
        memory = _MEMORY.search(text)
        is_large = memory is not None or "CompileTimeHbmOom" in text or "RESOURCE_EXHAUSTED" in text
        used, limit = (_bytes(*memory.groups()[at : at + 2]) for at in (0, 2)) if memory else (0.0, 0.0)
        return Compiled(
            verdict=TOO_LARGE if is_large else FAILED,
            message=" ".join(text.split())[:2_000],
            peak_bytes=used,
            limit_bytes=limit,
            seconds=time.monotonic() - began,
        )
    memory, costs = executable.get_compiled_memory_stats(), executable.cost_analysis()
    costs = costs[0] if isinstance(costs, list | tuple) else costs
    text = executable.hlo_modules()[0].to_string()
    return Compiled(
        verdict=FITS,
        peak_bytes=float(memory.peak_memory_in_bytes),
        argument_bytes=float(memory.argument_size_in_bytes),
        flops=float(costs.get("flops", 0.0)),
        accessed_bytes=min(float(costs.get("bytes accessed", math.inf)), traffic.hbm_bytes(text)),
        collectives=collectives(text),
        collective_operations=len(_COLLECTIVE.findall(text)),
        cycles=_cycles(text),
        loops=text.count(" while("),
        seconds=time.monotonic() - began,
    )


def _bytes(number: str, unit: str) -> float:
    return float(number) * _UNITS[unit.upper()]


def _executable(program: bytes, topology: str, replicas: int, *, is_quick: bool):
    mlir, client = import_module("jax._src.interpreters.mlir"), import_module("jax._src.lib").xla_client
    topologies = import_module("jax.experimental.topologies")
    convert, ir = import_module("jaxlib._jax").mlir.hlo_to_stablehlo, import_module("jaxlib.mlir.ir")
    described = topologies.get_topology_desc(platform="tpu", topology_name=topology, **_layout(topology))
    devices = described.devices[:replicas]
    options = client.CompileOptions()
    options.num_replicas = options.executable_build_options.num_replicas = replicas
    if is_quick:
        options.executable_build_options.exec_time_optimization_effort = _LEAST_EFFORT
    options.device_assignment = client.DeviceAssignment.create(np.array([[each.id] for each in devices]))
    context = mlir.make_ir_context()
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown(context):
        module = ir.Module.parse(convert(program))
        _prepare(module, ir)
        return devices[0].client.compile(
            module, executable_devices=client.DeviceList(tuple(devices)), compile_options=options
        )


def _layout(topology: str) -> dict[str, object]:
    """Options that libtpu needs for a topology besides its name.

    It assumes hosts of 2x2 chips, so that it would refuse a slice of one chip. The two
    cores of a v4 are one device on Cloud TPUs, with all memory of the chip ("megacore").
    """
    generation, _, shape = topology.partition(":")
    one_chip = {"chips_per_host_bounds": (1, 1, 1)} if set(shape.split("x")) == {"1"} else {}
    return one_chip | ({"chip_config_name": "megacore"} if generation == "v4" else {})


def _prepare(module, ir) -> None:
    """Writes donations as jax does, leaves out copies that jaxlib does not know, and has the TPU draw random
    numbers.
    """
    copies, draws = [], []

    def collect(operation):
        if operation.name == "mhlo.copy":
            copies.append(operation)
        if operation.name == "stablehlo.rng_bit_generator":
            draws.append(operation.operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect)
    for draw in draws:
        _draw_as_tpu(draw, ir)
    for copy in copies:
        copy.results[0].replace_all_uses_with(copy.operands[0])
        copy.operation.erase()
    attributes = module.operation.attributes
    if "mhlo.input_output_alias" in attributes:
        pairs = re.findall(
            r"parameter_number = (\d+)(?: : i64)?\}, output_index = array<i64: (\d+)>",
            str(attributes["mhlo.input_output_alias"]),
        )
        _donate(module, {int(parameter): int(output) for parameter, output in pairs}, ir)
    for name in ("mhlo.input_output_alias", "mhlo.cross_program_prefetches", "mhlo.is_dynamic"):
        if name in attributes:
            del attributes[name]
    if "mhlo.use_auto_spmd_partitioning" in attributes:
        del attributes["mhlo.use_auto_spmd_partitioning"]


def _draw_as_tpu(draw, ir) -> None:
    """Takes a TPU's own generator of random numbers.

    TensorFlow lowers for a processor, where it chooses Philox. For a TPU it chooses what the compiler has,
    whose state is a key and one counter (`DefaultRngAlgForDeviceType` and `GetCounterSize` of its tf2xla).
    Philox would take most of a step with dropout, and most of its compilation.
    """
    hlo = import_module("jaxlib.mlir.dialects.stablehlo")
    given, (state, bits) = draw.operands[0], draw.results

    def part(first: int, end: int):
        return hlo.slice(given, *(ir.DenseI64ArrayAttr.get([each]) for each in (first, end, 1)))

    with ir.InsertionPoint(draw):
        key = part(0, 2)
        own = hlo.RngBitGeneratorOp(key.type, bits.type, hlo.RngAlgorithmAttr.get("DEFAULT"), key)
        whole = hlo.concatenate([own.results[0], part(2, 3)], 0)  # nothing reads it, but operations name it
    state.replace_all_uses_with(whole)
    bits.replace_all_uses_with(own.results[1])
    draw.erase()


def _donate(module, outputs: Mapping[int, int], ir) -> None:
    """Says which argument's memory an output takes: so that weights are not counted twice."""
    main = next(
        each
        for each in module.body.operations
        if ir.StringAttr(each.operation.attributes["sym_name"]).value == "main"
    )
    given = [{} for _ in main.arguments]
    if "arg_attrs" in main.operation.attributes:
        for number, each in enumerate(ir.ArrayAttr(main.operation.attributes["arg_attrs"])):
            given[number] = {named.name: named.attr for named in ir.DictAttr(each)}
    kind = ir.IntegerType.get_signless(32)
    for parameter, output in outputs.items():
        given[parameter]["tf.aliasing_output"] = ir.IntegerAttr.get(kind, output)
    main.operation.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in given])


_COLLECTIVE = re.compile(
    r" = (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\("
)
_ARRAY = re.compile(r"\b(pred|[subf]+\d+)\[([\d,]*)\]")


def collectives(text: str) -> dict[str, int]:
    """Bytes of what operations with other devices give, by their kind, in an optimised program."""
    found: dict[str, int] = {}
    for shapes, kind in _COLLECTIVE.findall(text):
        found[kind] = found.get(kind, 0) + sum(_array_bytes(*each) for each in _ARRAY.findall(shapes))
    return found


def _array_bytes(dtype: str, shape: str) -> int:
    bits = 8 if dtype == "pred" else int(re.sub(r"\D", "", dtype))
    return math.prod(int(each) for each in shape.split(",") if each) * bits // 8


_ESTIMATE = re.compile(r'"estimated_cycles":"(\d+)"')
_OPERATION = re.compile(r'op_name="([^"]*)"')
_UNNAMED = "other"
_NO_LAYERS = ("gradient_tape", "StatefulPartitionedCall", "PartitionedCall", "cond", "while")


def _cycles(text: str) -> dict[str, int]:
    """Cycles by layer, the most first, of the optimised program's entry."""
    found: dict[str, int] = {}
    for line in traffic.entry_of(text).splitlines():
        if estimate := _ESTIMATE.search(line):
            operation = _OPERATION.search(line)
            layer = layer_of(operation[1]) if operation else _UNNAMED
            found[layer] = found.get(layer, 0) + int(estimate[1])
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def layer_of(operation: str) -> str:
    """Where an operation belongs: `gradient_tape/mlp_1/dense_1/MatMul` is of `mlp_1/dense_1`."""
    parts = [part for part in operation.split("/") if part and part not in _NO_LAYERS]
    return "/".join(parts[:-1]) or _UNNAMED


if __name__ == "__main__":
    _end_with_parent()
    _program, _topology, _replicas, _is_quick = sys.argv[1:]
    _content = pathlib.Path(_program).read_bytes()
    _answer = _compiled(_content, _topology, int(_replicas), is_quick=_is_quick == "1")
    print(json.dumps(dataclasses.asdict(_answer)))
