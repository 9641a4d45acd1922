"""The flags that the commands define, found in their code and what it imports: no command need be started."""

import argparse
import functools
import re

from apache_beam.options.pipeline_options import PipelineOptions

from tests.house.docs import documents
from tests.house.imports import HOUSE

# By absl, or as an `Option` of a raw format.
_DEFINED = re.compile(r"(?:\bDEFINE_\w+\(\s*|\bflag=)\"(\w+)\"")
_BOOLEAN = re.compile(r"\bDEFINE_bool(?:ean)?\(\s*\"(\w+)\"")
_HAND_FLAGS_ON = ("beam_jobs.convert", "beam_jobs.predict")  # to Beam
_OF_ABSL = frozenset(("flagfile", "help", "helpfull"))


@functools.cache
def of_command(module: str) -> frozenset[str]:
    """What `python -m module` takes; empty if there is no such module."""
    found: set[str] = set()
    seen: set[str] = set()
    left = [path] if (path := HOUSE.modules.get(module)) else []
    while left:
        path = left.pop()
        seen.add(path)
        found |= _defined(documents.read(path))
        left += HOUSE.ours(path) - seen - set(left)
    if module in _HAND_FLAGS_ON:
        found |= of_beam()
    return frozenset(found) | (_OF_ABSL if seen else frozenset())


@functools.cache
def of_beam() -> frozenset[str]:
    """The pipeline options of every runner that Beam knows."""
    parser = argparse.ArgumentParser(conflict_handler="resolve", add_help=False)
    for options in PipelineOptions.__subclasses__():
        options._add_argparse_args(parser)
    return frozenset(option.removeprefix("--") for option in parser._option_string_actions)


@functools.cache
def of_all() -> frozenset[str]:
    """What any of our commands takes, and Beam."""
    return frozenset().union(of_beam(), _OF_ABSL, *(_defined(documents.read(path)) for path in HOUSE.files))


def _defined(code: str) -> set[str]:
    """Flags that `code` defines; a boolean one is also taken as --noNAME."""
    shared = ["config"] * ("config.define_config(" in code)
    return {*shared, *_DEFINED.findall(code), *(f"no{name}" for name in _BOOLEAN.findall(code))}
