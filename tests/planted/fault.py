"""A fault that training once had, as a change of today's code, and the tests that must fail of it."""

import dataclasses
import pathlib

ROOT = pathlib.Path(__file__).parents[2]
_ENGINE = "pipeline/training/engine"
_TESTS = "tests/pipeline/training"
_UPDATE, _REPLICAS = f"{_TESTS}/engine/update_test.py", f"{_TESTS}/engine/replicas_test.py"
_CHECKPOINT, _OPTIMIZER = (
    f"{_TESTS}/engine/checkpoints/checkpoint_test.py",
    f"{_TESTS}/experiment/optimizer_test.py",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fault:
    """`sound`, which `path` holds once each, becomes `faulty`: what commit 56ca674 did."""

    name: str
    path: str
    sound: tuple[str, ...]
    faulty: tuple[str, ...]
    tests: tuple[str, ...]  # two or more, as pytest names them

    def planted(self, text: str) -> str:
        """The file's text with the fault in it. Raises ValueError where the sound text is not there once."""
        for sound, faulty in zip(self.sound, self.faulty, strict=True):
            if text.count(sound) != 1:
                raise ValueError(f"{self.name}: {self.path} holds {text.count(sound)} times {sound!r}")
            text = text.replace(sound, faulty)
        return text


FAULTS = (
    Fault(
        name="rows of equal ids are not summed",
        path=f"{_ENGINE}/update.py",
        # Keras's Adam at 56ca674: the second moment is the sum of the squares, not the square of the sum.
        sound=("    ids, rows, shape = gradient.indices, gradient.values, variable.shape\n",),
        faulty=(
            "    rows = gradient.indices, variable.shape[0]\n"
            "    squared = tf.math.unsorted_segment_sum(gradient.values**2, *rows)\n"
            "    whole = tf.math.unsorted_segment_sum(gradient.values, *rows)\n"
            "    return tf.sign(whole) * tf.sqrt(squared)\n",
        ),
        tests=(
            f"{_UPDATE}::test_rows_of_equal_ids_are_one_gradient[one_device]",
            f"{_UPDATE}::test_sparse_gradients_train_as_dense_ones_do[one_device]",
        ),
    ),
    Fault(
        name="each replica clips, and looks for infinities, by its own gradient",
        path=f"{_ENGINE}/update.py",
        sound=(
            "        self._inner._all_reduce_sum_gradients = list\n",
            "        summed = tf.distribute.get_replica_context().all_reduce(\n"
            '            "SUM", [gradient for gradient, _ in connected]\n'
            "        )\n",
        ),
        faulty=("", "        summed = [gradient for gradient, _ in connected]\n"),
        tests=(
            f"{_UPDATE}::test_an_infinite_gradient_of_any_replica_skips_the_step[mirrored-7]",
            f"{_UPDATE}::test_a_skipped_step_changes_neither_weights_nor_moments_nor_averages[mirrored-1]",
            f"{_UPDATE}::test_the_whole_gradient_is_clipped[mirrored]",
        ),
    ),
    Fault(
        name="the model's own losses do not count",
        path=f"{_ENGINE}/inner.py",
        sound=("sum(tf.cast(each, loss.dtype) for each in model.losses)",),
        faulty=("0.0",),
        tests=(
            f"{_UPDATE}::test_the_models_own_losses_count_once[one_device]",
            f"{_UPDATE}::test_losses_of_what_layers_output_are_the_mean_over_all_parts[mirrored-2]",
        ),
    ),
    Fault(
        name="moving statistics are those of replica 0",
        path=f"{_ENGINE}/replicas.py",
        sound=("layer.synchronized = True",),
        faulty=("layer.synchronized = False",),
        tests=(
            f"{_REPLICAS}::test_statistics_are_of_the_whole_batch[mirrored]",
            f"{_REPLICAS}::test_outputs_are_normalised_by_the_whole_batch[mirrored]",
        ),
    ),
    Fault(
        name="all replicas drop the same units",
        path=f"{_ENGINE}/replicas.py",
        sound=("generator.next = _of_replica(generator.next)",),
        faulty=("pass",),
        tests=(
            f"{_REPLICAS}::test_each_replica_drops_units_of_its_own",
            f"{_REPLICAS}::test_each_replica_has_noise_of_its_own",
        ),
    ),
    Fault(
        name="workers that are not the chief write, and delete what others write",
        path=f"{_ENGINE}/checkpoints/checkpoint.py",
        sound=("        if not self._worker:\n", "if self._optimizer and not self._worker:"),
        faulty=("        if True:\n", "if self._optimizer:"),
        tests=(
            f"{_CHECKPOINT}::test_other_workers_write_nothing",
            f"{_CHECKPOINT}::test_other_workers_delete_nothing",
        ),
    ),
    Fault(
        name="a chief of TF_CONFIG is not known",
        path=f"{_ENGINE}/cluster.py",
        sound=('_CHIEFS = ("chief", "master")',),
        faulty=("_CHIEFS = ()",),
        tests=(
            f"{_TESTS}/engine/cluster_test.py::test_places",
            f"{_TESTS}/engine/cluster_test.py::test_all_are_workers_to_tensorflow",
        ),
    ),
    Fault(
        name="weights are decayed, or not, by a part of their path",
        path="pipeline/training/experiment/optimizer.py",
        sound=('    return variable.path.rsplit("/", 1)[-1] in _NOT_DECAYED\n',),
        faulty=("    return any(word in variable.path for word in _NOT_DECAYED)\n",),
        tests=(
            f"{_OPTIMIZER}::test_biases_are_not_decayed[beta_blocker]",
            f"{_OPTIMIZER}::test_embeddings_are_decayed_whatever_their_column_is_called",
        ),
    ),
    Fault(
        name="a weight that is not finite is saved",
        path=f"{_ENGINE}/checkpoints/checkpoint.py",
        sound=("        bad = self._variables.not_finite(values)\n",),
        faulty=('        bad = ""\n',),
        tests=(
            f"{_CHECKPOINT}::test_a_value_that_is_not_finite_is_not_saved",
            f"{_CHECKPOINT}::test_a_worker_whose_weight_is_not_finite_says_so_too",
        ),
    ),
    Fault(
        name="the first step of a warm-up has the rate 0",
        path="pipeline/training/experiment/optimizer.py",
        sound=("rising = (step + 1.0) /",),
        faulty=("rising = step /",),
        tests=(
            f"{_OPTIMIZER}::test_cosine_warms_up_and_ends_at_zero",
            f"{_OPTIMIZER}::test_the_first_step_of_a_warm_up_changes_the_weights",
        ),
    ),
    Fault(
        name="input is waited for from when the loss is known, and handing a batch over counts",
        path=f"{_ENGINE}/inner.py",
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
            f"{_TESTS}/engine/inner_test.py::test_a_batch_is_asked_for_while_the_step_computes",
            f"{_TESTS}/engine/inner_test.py::test_a_wait_begins_when_all_weights_are_changed",
        ),
    ),
    Fault(
        name="XLA over several workers is said to be a matter of replicas in one process",
        path=f"{_ENGINE}/strategy.py",
        sound=('    if requested and name_of(strategy) == "multi_worker":\n',),
        faulty=("    if False:\n",),
        tests=(
            f"{_TESTS}/engine/strategy_test.py::test_xla_is_off_over_workers_whatever_replicas_one_has",
            f"{_TESTS}/workers/launch_test.py::test_two_workers_train_as_one_and_a_kill_ends_both",
        ),
    ),
    Fault(
        name="a run goes on with another augmentation",
        path="pipeline/training/state/continuation.py",
        sound=('    "augmentation",\n',),
        faulty=("",),
        tests=(
            f"{_TESTS}/state/continuation_test.py::test_what_weights_or_order_depend_on_may_not[augmentation.flip]",
            f"{_TESTS}/state/continuation_test.py::test_every_key_of_an_augmentation_is_bound",
        ),
    ),
    Fault(
        name="golden predictions of small units are never found to differ",
        path="pipeline/training/state/golden.py",
        sound=("max(scale.spread, float(np.max(np.abs(saved - scale.mean))))",),
        faulty=("max(1.0, float(np.max(np.abs(saved))))",),
        tests=(
            f"{_TESTS}/state/golden_test.py::test_the_unit_of_a_regression_decides_nothing[0.0-1e-06]",
            f"{_TESTS}/state/golden_test.py::test_the_unit_of_a_regression_decides_nothing[2000.0-5.0]",
            f"{_CHECKPOINT}::test_a_regression_in_millionths_is_judged_in_its_unit",
        ),
    ),
)
