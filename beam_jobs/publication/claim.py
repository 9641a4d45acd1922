"""Which directories a run may claim: new or empty ones, and those in which a killed run left its files.

A run owns `<output>/_tmp/`, with its mark in it, from its first act to its last but one. So a directory with
the mark and no manifest is what a killed run left, and the next run clears it; everything else belongs to
somebody, and is refused: somebody's own `_tmp` too.
"""

from collections.abc import Sequence

from beam_jobs.publication import file_names
from pipeline.data.errors import InputError

# The path of the mark in an output directory.
MARK = f"{file_names.TEMPORARY}/{file_names.MARK}"


def already_published(output: object) -> InputError:
    return InputError(
        f"--output={output}",
        received="a published dataset",
        expected="a directory that does not exist, or is empty",
        action="Datasets are never overwritten: choose a new version directory, or remove this one.",
    )


def check_ours(output: object, names: Sequence[str], *, is_marked: bool) -> None:
    """Raises InputError if any of `names` in `output` may be somebody else's."""
    foreign = [name for name in names if not (is_marked and file_names.is_ours(name))]
    if foreign:
        raise InputError(
            f"--output={output}",
            received=f"a directory that holds {', '.join(foreign[:5])}",
            expected="a directory that does not exist, or is empty",
            action="Choose another directory, or move these files away.",
        )


def leftovers_in_order(names: Sequence[str]) -> list[str]:
    """`names` in the order in which to remove them: what marks the others as ours goes last."""
    return sorted(names, key=lambda name: (name.startswith(file_names.TEMPORARY), name == MARK))
