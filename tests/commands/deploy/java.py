"""Holds an export against TensorFlow's Java library: deploy/java predicts the golden records."""

import os
import pathlib
import subprocess
from collections.abc import Iterator

import numpy as np

from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

# isort: split
from pipeline.data.dataset import records
from pipeline.exporting import export, replay
from pipeline.exporting import requests as requests_lib
from pipeline.report.comparison import largest_difference
from tests.commands.deploy import recipes
from tests.shared.people import small_model, write_people

NEEDS = ("mvn", "java")

_BUILT = recipes.CHECKOUT / "build/java"


def check(folder: pathlib.Path) -> Iterator[str]:
    """Exports a small model, compiles the program, and compares its answers; raises where they differ."""
    model = folder / "java" / str(os.getpid())
    export.export_model(small_model(write_people(model / "people" / "1.0.0")), model / "export")
    compile_program()
    found, expected = answers(model / "export"), golden(model / "export")
    tolerance = requests_lib.load(model / "export").tolerance
    worst = largest_difference(found, expected) / np.abs(expected).max()
    if not worst <= tolerance:
        raise AssertionError(f"answers differ by {worst:.3g} of the largest, above {tolerance:.3g}")
    yield f"{len(expected)} records, {worst:.2g} of the largest number off"


def compile_program() -> None:
    """Compiles deploy/java with its libraries into build/java."""
    command = ["mvn", "--quiet", "--batch-mode", "--file", "deploy/java/pom.xml", "package"]
    subprocess.run(command, cwd=recipes.CHECKOUT, check=True)


def answers(directory: pathlib.Path) -> np.ndarray:
    """Returns Java's predictions of the golden records, float32 [rows, classes]."""
    classes = f"{_BUILT}/classes:{_BUILT}/lib/*"
    command = ["java", "-cp", classes, "Predict", str(directory), str(directory / records.GOLDEN_EXAMPLES)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    numbers = [line.split()[1] for line in done.stdout.splitlines()]
    return np.array(numbers, np.float32).reshape(golden(directory).shape)


def golden(directory: pathlib.Path) -> np.ndarray:
    """Returns the predictions of the graph that was exported, [rows, classes]."""
    [predictions] = dict(np.load(directory / replay.GOLDEN_PREDICTIONS)).values()
    return predictions
