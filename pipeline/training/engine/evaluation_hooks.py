"""Tells Keras callbacks of an evaluation, as `Model.evaluate` does."""

from collections.abc import Iterable, Iterator

import keras

from pipeline.training.tasks.metrics import EvaluationMetrics


def observed(
    steps: Iterable[int], hooks: keras.callbacks.CallbackList | None, metrics: EvaluationMetrics
) -> Iterator[int]:
    """The steps; the hooks `on_test_*` are called around each of them, and around all.

    Args:
      metrics: what the caller's body adds each step's examples to.
    """
    if hooks is None:
        yield from steps
        return
    hooks.on_test_begin()
    for step in steps:
        hooks.on_test_batch_begin(step)
        yield step
        hooks.on_test_batch_end(step, _numbers(hooks, "on_test_batch_end", metrics))
    hooks.on_test_end(_numbers(hooks, "on_test_end", metrics))


def _numbers(
    hooks: keras.callbacks.CallbackList, name: str, metrics: EvaluationMetrics
) -> dict[str, float] | None:
    """What the hook is told; nothing where no callback has it: an ROC AUC after every batch is dear."""
    base = getattr(keras.callbacks.Callback, name)
    is_heard = any(getattr(type(callback), name) is not base for callback in hooks.callbacks)
    return metrics.numbers() if is_heard else None
