"""Converts a graph function to a file of another runtime: LiteRT or ONNX."""

import pathlib
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module  # imports packages that requirements.txt does not have

import keras
import tensorflow as tf
from google.protobuf.message import Message

from pipeline.base.tensorflow_start import standard_error_held_back
from pipeline.exporting.runtimes import SIGNATURE

Function = tf.types.experimental.PolymorphicFunction

_OPSET = 18  # version of ONNX's operations: the newest that tf2onnx 1.17 writes
# Names of lacking operations in LiteRT's errors.
_LACKING = re.compile(r"(?:TF Select|Custom|Flex) ops: ([\w, ]+)")


class UnsuitableError(Exception):
    """Raised where a model cannot be converted, or its file gives other answers; the message is the reason,
    as a noun phrase.
    """


def convert(
    function: Function, to_format: str, output: pathlib.Path, *, tracked: Sequence[tf.Module]
) -> None:
    """Writes a function of named tensors with a fixed signature to `output`.

    What converters print, which may be thousands of lines, is not shown.

    Args:
      tracked: the object that holds the variables and tables of the function.

    Raises:
      UnsuitableError: the format lacks an operation of the model, which the message names.
    """
    error: Exception | None = None
    with standard_error_held_back():
        try:
            _CONVERSIONS[to_format](function, output, tracked)
        except Exception as raised:  # converters raise anything
            error = raised
    if isinstance(error, UnsuitableError):
        raise error
    if error:
        line = (str(error).strip().splitlines() or [""])[0]
        raise UnsuitableError(f"a model that its converter fails on ({type(error).__name__}: {line})")


def _to_litert(function: Function, output: pathlib.Path, tracked: Sequence[tf.Module]) -> None:
    archive = keras.export.ExportArchive()  # TensorFlow's own way of saving loses the weights of Keras models
    for each in tracked:
        archive.track(each)
    archive.add_endpoint(SIGNATURE, function)
    with tempfile.TemporaryDirectory() as folder:
        archive.write_out(folder, verbose=False)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=[SIGNATURE])
        try:
            output.write_bytes(converter.convert())
        except Exception as error:  # a class that TensorFlow does not export raises it
            if found := _LACKING.findall(str(error)):
                raise _lacking(name.strip() for each in found for name in each.split(",")) from None
            raise


def _to_onnx(function: Function, output: pathlib.Path, tracked: Sequence[tf.Module]) -> None:
    onnx, converter = import_module("onnx"), import_module("tf2onnx.convert")
    del tracked  # the variables become constants
    model, _ = converter.from_function(function, function.input_signature, opset=_OPSET)
    # tf2onnx leaves operations unchanged that it does not know.
    if unknown := {name for name in _operations(model.graph) if not onnx.defs.has(name)}:
        raise _lacking(unknown)
    onnx.save(model, str(output))


def _operations(graph: Message) -> Iterator[str]:
    """Yields the operations of ONNX's own set in a graph, and in the graphs of its loops and branches."""
    for node in graph.node:
        if not node.domain:
            yield node.op_type
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _operations(inner)


def _lacking(operations: Iterator[str] | set[str]) -> UnsuitableError:
    names = sorted({name for name in operations if name})
    return UnsuitableError(f"a model with the operation{'s' * (len(names) > 1)} {', '.join(names)}")


_Convert = Callable[[Function, pathlib.Path, Sequence[tf.Module]], None]
_CONVERSIONS: Mapping[str, _Convert] = {"litert": _to_litert, "onnx": _to_onnx}
