"""Faults that training once had, put back into a copy of the code one at a time: two tests must fail of each.

  python -m tests.soak.fault_injection --cases=clip*

A test has to fail by an assertion, and must pass without any fault first. Five minutes.
"""

import dataclasses
import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

from tests.soak import harness
from tests.soak.harness import ROOT, Row, Soak

# The end of a test by an assertion: not that a name is missing or a file cannot be read.
_JUDGED = re.compile(r" - (AssertionError|assert |Failed: DID NOT RAISE)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fault:
    """`sound`, which one file of the training holds once each, becomes `faulty`: what commit 56ca674 did."""

    name: str
    sound: tuple[str, ...]
    faulty: tuple[str, ...]
    tests: tuple[str, ...]  # two or more, by their names


FAULTS = (
    Fault(
        name="rows of equal ids are not summed",
        # Keras's Adam at 56ca674: the second moment is the sum of the squares, not the square of the sum.
        sound=("    ids, values, shape = gradient.indices, gradient.values, variable.shape\n",),
        faulty=(
            "    rows = gradient.indices, variable.shape[0]\n"
            "    squared = tf.math.unsorted_segment_sum(gradient.values**2, *rows)\n"
            "    whole = tf.math.unsorted_segment_sum(gradient.values, *rows)\n"
            "    return tf.sign(whole) * tf.sqrt(squared)\n",
        ),
        tests=(
            "test_rows_of_equal_ids_are_one_gradient[one_device]",
            "test_sparse_gradients_train_as_dense_ones_do[one_device]",
        ),
    ),
    Fault(
        name="each replica clips, and looks for infinities, by its own gradient",
        sound=(
            "        self._inner._all_reduce_sum_gradients = list\n",
            "        summed = _summed([gradient for gradient, _ in connected])\n",
        ),
        faulty=("", "        summed = [gradient for gradient, _ in connected]\n"),
        tests=(
            "test_an_infinite_gradient_of_any_replica_skips_the_step[7-mirrored]",
            "test_a_skipped_step_changes_neither_weights_nor_moments_nor_averages[mirrored-1]",
            "test_the_whole_gradient_is_clipped[mirrored]",
        ),
    ),
    Fault(
        name="the model's own losses do not count",
        sound=("sum(tf.cast(each, loss.dtype) for each in model.losses)",),
        faulty=("0.0",),
        tests=(
            "test_the_models_own_losses_count_once[one_device]",
            "test_losses_of_what_layers_output_are_the_mean_over_all_parts[mirrored-2]",
        ),
    ),
    Fault(
        name="moving statistics are those of replica 0",
        sound=("            _share_statistics(layer)\n",),
        faulty=("            pass\n",),
        tests=(
            "test_statistics_are_of_the_whole_batch[mirrored]",
            "test_outputs_are_normalised_by_the_whole_batch[mirrored]",
        ),
    ),
    Fault(
        name="all replicas drop the same units",
        sound=("generator.next = _of_replica(generator.next)",),
        faulty=("pass",),
        tests=(
            "test_each_replica_drops_units_of_its_own",
            "test_each_replica_has_noise_of_its_own",
        ),
    ),
    Fault(
        name="workers that are not the chief write, and delete what others write",
        sound=("        if not self._worker:\n", "if self._optimizer and not self._worker:"),
        faulty=("        if True:\n", "if self._optimizer:"),
        tests=(
            "test_other_workers_write_nothing",
            "test_other_workers_delete_nothing",
        ),
    ),
    Fault(
        name="a chief of TF_CONFIG is not known",
        sound=('_CHIEFS = ("chief", "master")',),
        faulty=("_CHIEFS = ()",),
        tests=(
            "test_places",
            "test_all_are_workers_to_tensorflow",
        ),
    ),
    Fault(
        name="weights are decayed, or not, by a part of their path",
        sound=('    return variable.path.rsplit("/", 1)[-1] in _NOT_DECAYED\n',),
        faulty=("    return any(word in variable.path for word in _NOT_DECAYED)\n",),
        tests=(
            "test_biases_are_not_decayed[beta_blocker]",
            "test_embeddings_are_decayed_whatever_their_column_is_called",
        ),
    ),
    Fault(
        name="a weight that is not finite is saved",
        sound=("        bad = self._variables.not_finite(values)\n",),
        faulty=('        bad = ""\n',),
        tests=(
            "test_a_value_that_is_not_finite_is_not_saved",
            "test_a_worker_whose_weight_is_not_finite_says_so_too",
        ),
    ),
    Fault(
        name="the first step of a warm-up has the rate 0",
        sound=("rising = (step + 1.0) /",),
        faulty=("rising = step /",),
        tests=(
            "test_cosine_warms_up_and_ends_at_zero",
            "test_the_first_step_of_a_warm_up_changes_the_weights",
        ),
    ),
    Fault(
        name="input is waited for from when the loss is known, and handing a batch over counts",
        sound=(
            "tf.control_dependencies([sums, *_values(strategy, updated)]):\n",
            "            ahead, made = tf.cond(done + 1 < steps, take, lambda: (batch, _never()))\n",
        ),
        faulty=(
            "tf.control_dependencies([sums]):\n",
            "            with tf.control_dependencies([ended]):\n"
            "                ahead, made = tf.cond(done + 1 < steps, take, lambda: (batch, _never()))\n",
        ),
        tests=(
            "test_a_batch_is_asked_for_while_the_step_computes",
            "test_a_wait_begins_when_all_weights_are_changed",
        ),
    ),
    Fault(
        name="XLA over several workers is said to be a matter of replicas in one process",
        sound=('    if requested and name_of(strategy) == "multi_worker":\n',),
        faulty=("    if False:\n",),
        tests=(
            "test_xla_is_off_over_workers_whatever_replicas_one_has",
            "test_two_workers_train_as_one_and_a_kill_ends_both",
        ),
    ),
    Fault(
        name="a run goes on with another augmentation",
        sound=('    "augmentation",\n',),
        faulty=("",),
        tests=(
            "test_what_weights_or_order_depend_on_may_not[augmentation.flip]",
            "test_every_key_of_an_augmentation_is_bound",
        ),
    ),
    Fault(
        name="golden predictions of small units are never found to differ",
        sound=("max(scale.spread, float(np.max(np.abs(saved - scale.mean))))",),
        faulty=("max(1.0, float(np.max(np.abs(saved))))",),
        tests=(
            "test_the_unit_of_a_regression_decides_nothing[0.0-1e-06]",
            "test_the_unit_of_a_regression_decides_nothing[2000.0-5.0]",
            "test_a_regression_in_millionths_is_judged_in_its_unit",
        ),
    ),
)


def file_of(fault: Fault, root: pathlib.Path = ROOT) -> pathlib.Path:
    """The file that holds the sound text. Raises ValueError where there is none, or more than one."""
    paths = [*(root / "pipeline" / "training").rglob("*.py")]
    found = [path for path in paths if all(path.read_text().count(sound) == 1 for sound in fault.sound)]
    if len(found) != 1:
        raise ValueError(f"{fault.name}: {len(found)} files hold {fault.sound!r} once")
    return found[0]


def tests_of(fault: Fault, root: pathlib.Path = ROOT) -> list[str]:
    """The tests, as pytest names them."""
    found = []
    for test in fault.tests:
        define = f"def {test.partition('[')[0]}("
        path = next(
            path for path in sorted((root / "tests").rglob("*_test.py")) if define in path.read_text()
        )
        found.append(f"{path.relative_to(root)}::{test}")
    return found


def faults(soak: Soak, *, fault: Fault) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        _copy_code(copy)
        tests = tests_of(fault, copy)
        if (sound := _pytest(copy, tests)).returncode:
            yield f"without the fault: {sound.stdout[-600:]}"
            return
        path = file_of(fault, copy)
        text = path.read_text()
        for sound_text, faulty in zip(fault.sound, fault.faulty, strict=True):
            text = text.replace(sound_text, faulty)
        path.write_text(text)
        summary = _pytest(copy, [*tests, "-rf", "--tb=no"]).stdout.splitlines()
        for test in tests:  # one with parameters fails if one of its cases does
            lines = [line for line in summary if line.startswith(("FAILED", "ERROR")) and test in line]
            if not any(map(_JUDGED.search, lines)):
                yield f"{test} {f'breaks: {lines[0]}' if lines else 'passes'}"


def _copy_code(folder: pathlib.Path) -> None:
    command = ("git", "ls-files", "-co", "--exclude-standard")
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    for name in filter(lambda name: (ROOT / name).is_file(), names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())


def _pytest(copy: pathlib.Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *tests)
    # In a narrow terminal, pytest does not say why a test failed.
    environment = os.environ | {"COLUMNS": "1000"}
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)


ROWS = tuple(
    Row(
        name="_".join(re.findall(r"\w+", fault.name)[:5]),
        sentence=f"Puts it back that {fault.name}.",
        faults=functools.partial(faults, fault=fault),
    )
    for fault in FAULTS
)


if __name__ == "__main__":
    harness.run(lambda: ROWS)
