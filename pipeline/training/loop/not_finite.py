"""What is said where a number is infinite or not a number: what is saved, and where one goes on."""

from pipeline.data.errors import InputError

TRAIN_OTHERWISE = (
    "Train in an empty --workdir with a lower --config.optimizer.learning_rate, or with --precision=float32."
)


class NotFiniteError(InputError):
    """A number of the run is infinite or not a number."""


def not_finite(thing: str, received: object, *, newest: int) -> NotFiniteError:
    """The error that ends the run.

    Args:
      thing: what is not finite, and after which step.
      newest: step of the newest checkpoint, which is from before; 0: there is none.
    """
    return NotFiniteError(
        thing,
        received=received,
        expected="finite numbers",
        action=f"{saved(newest)} {TRAIN_OTHERWISE}",
    )


def saved(newest: int) -> str:
    """What is saved: the newest checkpoint, of step `newest`; 0: there is none."""
    return (
        f"The newest checkpoint, of step {newest:,}, is from before." if newest else "Nothing is saved yet."
    )
