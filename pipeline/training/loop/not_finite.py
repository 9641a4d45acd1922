"""What is said where a number is infinite or not a number: what is saved, and where one goes on."""

from pipeline.data.errors import InputError


def not_finite(thing: str, received: object, *, newest: int) -> InputError:
    """The error that ends the run.

    Args:
      thing: what is not finite, and after which step.
      newest: step of the newest checkpoint, which is from before; 0: there is none.
    """
    saved = (
        f"The newest checkpoint, of step {newest:,}, is from before." if newest else "Nothing is saved yet."
    )
    return InputError(
        thing,
        received=received,
        expected="finite numbers",
        action=f"{saved} Train in an empty --workdir with a lower --config.optimizer.learning_rate, "
        "or with --precision=float32.",
    )
