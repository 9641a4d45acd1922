"""Reads a Dockerfile as far as ours goes: one instruction after another."""

import dataclasses
import re


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """An instruction: its word, such as RUN, and what stands behind it."""

    word: str
    rest: str


def steps(text: str) -> list[Step]:
    """The instructions of a Dockerfile; continued lines are one."""
    without_comments = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", without_comments).splitlines()
    parted = (line.partition(" ") for line in lines if line)
    return [Step(word=word, rest=rest) for word, _, rest in parted]
