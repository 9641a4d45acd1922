"""The distribution strategy that a flag names, on the devices of this machine."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

from pipeline.base.errors import InputError
from pipeline.training.engine import cluster

_AUTO = "auto"
_MOST_LOGICAL = 1024  # devices into which one processor may be split, at most


def create(name: str = _AUTO, *, logical_devices: int = 1) -> tf.distribute.Strategy:
    """Makes a strategy; call it before anything else touches TensorFlow's devices.

    Args:
      name: `one_device`, `mirrored`, `multi_worker`, `tpu` or `auto`. `auto` takes the TPU if there is one,
        else all workers of TF_CONFIG, else all devices of this machine.
      logical_devices: number of parts into which the CPU is split, so that a laptop has replicas.

    Raises:
      InputError: the name is unknown, or a device that it needs is missing.
    """
    _split_cpu(logical_devices)
    name = _best() if name == _AUTO else name
    if name not in _STRATEGIES:
        raise InputError(
            "--strategy",
            received=repr(name),
            expected=f"{_AUTO}, {', '.join(_STRATEGIES)}",
            action="Choose one of these; auto takes every device that there is.",
        )
    return _STRATEGIES[name]()


def name_of(strategy: tf.distribute.Strategy) -> str:
    """The name under which `create` makes such a strategy."""
    kinds = {
        "one_device": tf.distribute.OneDeviceStrategy,
        "multi_worker": tf.distribute.MultiWorkerMirroredStrategy,
        "mirrored": tf.distribute.MirroredStrategy,
        "tpu": tf.distribute.TPUStrategy,
    }
    return next(name for name, kind in kinds.items() if isinstance(strategy, kind))


def require_divisible(key: str, global_batch: int, strategy: tf.distribute.Strategy) -> None:
    """Raises InputError unless every replica gets the same number of examples."""
    replicas = strategy.num_replicas_in_sync
    if global_batch < 1 or global_batch % replicas:
        nearest = max(1, round(global_batch / replicas)) * replicas
        raise InputError(
            f"--config.{key}",
            received=global_batch,
            expected=f"a positive multiple of the {replicas} replicas",
            action=f"Set --config.{key}={nearest}.",
        )


def worker(strategy: tf.distribute.Strategy) -> int:
    """Returns this process's number among those that train together; 0, the chief, writes all files."""
    return strategy.cluster_resolver.task_id or 0 if name_of(strategy) == "multi_worker" else 0


def jit_compile(requested: bool, strategy: tf.distribute.Strategy) -> tuple[bool, str]:
    """Returns whether XLA compiles the step, and why."""
    if name_of(strategy) == "tpu":
        return True, "a TPU runs nothing else"
    if requested and name_of(strategy) == "multi_worker":
        # XLA fails: "Collectives are not yet implemented for CPU devices when compiling with XLA" (2.21,
        # measured).
        return False, "asked for, but " + (
            "nobody has tried it on GPUs of several workers"
            if _devices("GPU")
            else "TensorFlow has no XLA for the sums over workers on a CPU"
        )
    if requested and strategy.num_replicas_in_sync > 1:
        # This would fail with "resource located in device CPU:1 from device CPU:0" (TensorFlow 2.21,
        # measured).
        return False, "asked for, but TensorFlow cannot compile a step with several replicas in one process"
    if requested and not _has_compiler():
        return False, "asked for, but this TensorFlow has no XLA compiler for this machine's devices"
    return requested, "asked for" if requested else "not asked for"


def _has_compiler() -> bool:
    """Returns whether TensorFlow can compile for the processor; tensorflow-tpu cannot (2.20.0, measured)."""
    try:
        tf.function(lambda: tf.constant(1.0) + 1.0, jit_compile=True, autograph=False)()
    except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, tf.errors.NotFoundError):
        return False
    return True


def _one_device() -> tf.distribute.Strategy:
    return tf.distribute.OneDeviceStrategy(f"/{'GPU' if _devices('GPU') else 'CPU'}:0")


def _mirrored() -> tf.distribute.Strategy:
    if _devices("GPU"):
        return tf.distribute.MirroredStrategy(_devices("GPU"))
    # Collectives between CPUs number their instances from 1 in every strategy, so a second strategy in one
    # process fails ("Shape mismatch in the collective instance"). A plain sum on one device does not.
    return tf.distribute.MirroredStrategy(_devices("CPU"), tf.distribute.ReductionToOneDevice())


def _multi_worker() -> tf.distribute.Strategy:
    found = cluster.read()
    if not found or found.number is None:
        raise InputError(
            f"--strategy=multi_worker, environment variable {cluster.VARIABLE}",
            received=f"the task {found.task}" if found else "no cluster",
            expected="a cluster, and a task in it that trains: chief or worker",
            action="Set it in every worker; start no evaluators, the workers evaluate together.",
        )
    cluster.notice_silence(len(found.addresses))
    print(f"waiting    for {len(found.addresses)} workers", flush=True)
    with cluster.ended_by_signals(), _own_port(found.addresses[found.number]):
        return tf.distribute.MultiWorkerMirroredStrategy(found.resolver())


@contextlib.contextmanager
def _own_port(address: str) -> Iterator[None]:
    try:
        yield
    except tf.errors.UnknownError as error:
        if "gRPC server" not in str(error):  # TensorFlow says "Could not start gRPC server" (2.21, measured)
            raise
        raise InputError(
            f"environment variable {cluster.VARIABLE}, {address}",
            received="a port that this worker cannot open: another process has it, or it is privileged",
            expected="a free port",
            action="End that process, or name another port in TF_CONFIG; --workers takes free ones.",
        ) from None


def _tpu() -> tf.distribute.Strategy:
    if not _has_tpu():
        raise InputError(
            "--strategy=tpu",
            received="a machine without a TPU (no local device, no TPU_NAME)",
            expected="a TPU VM, or TPU_NAME set to a reachable TPU",
            action="Run on a TPU VM with tensorflow-tpu installed, or choose another strategy.",
        )
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=os.environ.get("TPU_NAME", "local"))
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, tf.errors.OpError) as error:
        raise InputError(
            "--strategy=tpu",
            received=f"a TPU that does not answer ({error})",
            expected="a TPU that can be initialised",
            action="Check TPU_NAME, and that no other process holds the TPU.",
        ) from None
    return tf.distribute.TPUStrategy(resolver)


_STRATEGIES: Mapping[str, Callable[[], tf.distribute.Strategy]] = {
    "one_device": _one_device,
    "mirrored": _mirrored,
    "multi_worker": _multi_worker,
    "tpu": _tpu,
}


def _best() -> str:
    if _has_tpu():
        return "tpu"
    found = cluster.read()
    if found and (found.number is None or len(found.addresses) > 1):
        return "multi_worker"
    return "mirrored" if len(_devices("GPU") or _devices("CPU")) > 1 else "one_device"


def _has_tpu() -> bool:
    return bool(os.environ.get("TPU_NAME") or tf.config.list_physical_devices("TPU"))


def _devices(kind: str) -> list[str]:
    """Names of this process's devices, such as "GPU:0". GPUs are the physical ones, CPUs the logical ones."""
    if kind == "GPU":
        return [f"GPU:{index}" for index, _ in enumerate(tf.config.list_physical_devices("GPU"))]
    cpu = tf.config.list_physical_devices("CPU")[0]
    return [
        f"CPU:{index}" for index, _ in enumerate(tf.config.get_logical_device_configuration(cpu) or [cpu])
    ]


def _split_cpu(parts: int) -> None:
    if not 1 <= parts <= _MOST_LOGICAL:
        raise InputError(
            "--logical_devices",
            received=parts,
            expected=f"1 to {_MOST_LOGICAL:,}",
            action="Leave out the flag, or set it to the number of replicas to try.",
        )
    cpu = tf.config.list_physical_devices("CPU")[0]
    configured = len(tf.config.get_logical_device_configuration(cpu) or [cpu])
    if parts > 1 and configured != parts:
        # This works only once in a process, before first use; otherwise TensorFlow raises an error.
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * parts)


# --- Determinism: TensorFlow's own switch, and a clock that it allows.


def enable_determinism(strategy: tf.distribute.Strategy) -> None:
    """Makes TensorFlow compute the same bits each time, or refuse an operation that cannot.

    On a CPU it changes no bits of our models (2.21, measured); on a GPU it chooses slower algorithms; on a
    TPU there is nothing to choose. It holds for the whole process, and cannot be taken back.
    """
    if not isinstance(strategy, tf.distribute.TPUStrategy):
        tf.config.experimental.enable_op_determinism()


def determinism_clock(strategy: tf.distribute.Strategy, *, is_deterministic: bool) -> Callable[[], tf.Tensor]:
    """A clock for a graph: seconds, float64 []."""
    forbidden = is_deterministic and not isinstance(strategy, tf.distribute.TPUStrategy)
    return timestamp if forbidden else tf.timestamp


def timestamp() -> tf.Tensor:
    """Seconds, float64 [], read when the graph runs this; like `tf.timestamp`, which determinism forbids."""
    return tf.ensure_shape(tf.numpy_function(_now, [], tf.float64), [])


def _now() -> np.float64:
    return np.float64(time.time())


# --- Decisions that all processes make alike.


_MS_TO_LEAVE = 20_000
_SIGNALS = 65  # Linux numbers them 1 to 64


def largest(strategy: tf.distribute.Strategy, number: Callable[[], int]) -> Callable[[], int]:
    """Returns a function that gives the largest value, 0 to 64, of `number` over all processes.

    All processes must call it equally often: it sums over the workers of a cluster.
    """
    if name_of(strategy) != "multi_worker":
        return number

    counted = _summed(strategy)

    def agreed() -> int:
        counts = np.bincount([number()], minlength=_SIGNALS).astype(np.int32)
        return int(np.flatnonzero(counted(tf.constant(counts)).numpy()).max())

    return agreed


def same_step(strategy: tf.distribute.Strategy, step: int) -> int:
    """The step from which this process continues; all processes must call it.

    Raises:
      InputError: another process continues from another step, because it has found other checkpoints.
    """
    if name_of(strategy) != "multi_worker":
        return step
    found = _of_all(strategy)(step)
    if len(set(found.tolist())) > 1:
        listed = ", ".join(f"worker {worker} step {one:,}" for worker, one in enumerate(found))
        raise InputError(
            "--workdir",
            received=f"other checkpoints than on other workers ({listed})",
            expected="a directory that all workers see, so that all go on from the same step",
            action="Put it on a file system that all share, or copy worker 0's directory to the others.",
        )
    return step


def latest_step(strategy: tf.distribute.Strategy) -> Callable[[int], int]:
    """A function from a step to the latest step that any process gives; it waits for all processes."""
    if name_of(strategy) != "multi_worker":
        return lambda step: step
    of_all = _of_all(strategy)
    return lambda step: int(of_all(step).max())


def leave_together(strategy: tf.distribute.Strategy) -> None:
    """Waits until no worker needs another any more; call it where a process only has to end.

    A process that ends while another still fetches its sums looks lost (TensorFlow 2.21, measured).
    """
    if name_of(strategy) != "multi_worker":
        return
    # No public module has it. The trained model is saved, so a worker that is lost now changes nothing.
    with contextlib.suppress(tf.errors.OpError):
        context.context().wait_at_barrier("penstock/end", _MS_TO_LEAVE)


def _of_all(strategy: tf.distribute.Strategy) -> Callable[[int], np.ndarray]:
    """Returns a function from this worker's number to the numbers of all workers, int64 [workers]."""
    workers = len(strategy.cluster_resolver.cluster_spec().job_tasks("worker"))
    summed = _summed(strategy)

    def of_all(number: int) -> np.ndarray:
        numbers = np.zeros(workers, np.int64)
        numbers[worker(strategy)] = number
        return summed(tf.constant(numbers)).numpy() * workers // strategy.num_replicas_in_sync

    return of_all


def _summed(strategy: tf.distribute.Strategy) -> Callable[[tf.Tensor], tf.Tensor]:
    """A function from a tensor to the sum of this tensor over all replicas."""

    @tf.function(autograph=False)
    def summed(values: tf.Tensor) -> tf.Tensor:
        return strategy.reduce("SUM", strategy.run(tf.identity, args=(values,)), axis=None)

    return summed
