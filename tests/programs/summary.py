"""What a lowered program holds, in numbers: no value, and nothing that depends on the machine.

A program is read as TensorFlow hands it to XLA, before any compiler changes it. A loop's body counts once.
"""

import collections
import math
from collections.abc import Iterator, Mapping, Sequence

from tensorflow.compiler.xla import xla_data_pb2  # not public; TensorFlow has no other reader of programs
from tensorflow.compiler.xla.service import hlo_pb2

from pipeline.forecast.compiler import layer_of

# They compute nothing: a compiler makes no value of them, or one that no input changes.
_FREE = ("parameter", "constant", "iota", "tuple", "get-tuple-element", "reshape", "broadcast", "after-all")
_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
_CONTROL = ("while", "conditional", "call")
_BACKWARD = "gradient_tape/"
# Only the first few of these are named.
LARGEST, MOST_KEPT = "most bytes: ", "most bytes kept: "
_NAMED = 5
_DEPTH = 2  # names of a layer: that of the model, and that of its layer or block

Instruction = hlo_pb2.HloInstructionProto


def summarise(program: bytes) -> dict[str, int]:
    """Returns numbers of a serialised HloModuleProto, each with what it counts."""
    module = hlo_pb2.HloModuleProto.FromString(program)
    bodies = list(_bodies(module))
    instructions = [each for body in bodies for each in body.instructions]
    found = _interface(module)
    found |= _between_devices(instructions)
    found |= _products(instructions)
    found |= _values(instructions)
    found |= _kept(bodies)
    kinds = collections.Counter(each.opcode for each in instructions)
    computing = {kind: number for kind, number in sorted(kinds.items()) if kind not in _FREE}
    return found | {"operations": sum(computing.values())} | computing


def _bodies(module: hlo_pb2.HloModuleProto) -> Iterator[hlo_pb2.HloComputationProto]:
    """The entry, and what its loops and branches run; not the additions within a reduction."""
    by_id = {each.id: each for each in module.computations}
    waiting, seen = [module.entry_computation_id], set()
    while waiting:
        number = waiting.pop()
        if number not in seen:
            seen.add(number)
            yield by_id[number]
            for each in by_id[number].instructions:
                waiting += each.called_computation_ids if each.opcode in _CONTROL else ()


def _interface(module: hlo_pb2.HloModuleProto) -> dict[str, int]:
    """Arguments and results, and those arguments whose memory a result takes."""
    shape = module.host_program_shape
    donated = {each.parameter_number for each in module.input_output_alias.entries}
    return {
        "arguments": len(shape.parameters),
        "bytes of arguments": sum(map(size_of, shape.parameters)),
        "bytes of results": size_of(shape.result),
        "donated arguments": len(donated),
        "bytes of donated arguments": sum(size_of(shape.parameters[each]) for each in donated),
    }


def _between_devices(instructions: Sequence[Instruction]) -> dict[str, int]:
    sent = collections.Counter()
    for each in instructions:
        if each.opcode in _COLLECTIVES:
            sent[f"bytes of {each.opcode}"] += size_of(each.shape)
    return dict(sorted(sent.items()))


# --- Products, which take most of a step's time.


def _products(instructions: Sequence[Instruction]) -> dict[str, int]:
    """Operations of products of matrices and of convolutions, by the type that they multiply."""
    by_id, flops = {each.id: each for each in instructions}, collections.Counter()
    for each in instructions:
        if each.opcode in ("dot", "convolution"):
            left, right = (by_id[number].shape for number in each.operand_ids)
            counted = _of_dot(each, left) if each.opcode == "dot" else _of_convolution(each, left, right)
            flops[f"FLOP of products in {_type(left)}"] += counted
    return dict(sorted(flops.items()))


def _of_dot(dot: Instruction, left: xla_data_pb2.ShapeProto) -> int:
    summed = math.prod(left.dimensions[axis] for axis in dot.dot_dimension_numbers.lhs_contracting_dimensions)
    return 2 * math.prod(dot.shape.dimensions) * summed


def _of_convolution(
    convolution: Instruction, image: xla_data_pb2.ShapeProto, kernel: xla_data_pb2.ShapeProto
) -> int:
    """Multiplications by padding and by the zeros of a dilation are none, as for XLA's own count."""
    axes, output = convolution.convolution_dimension_numbers, convolution.shape.dimensions
    flops = 2 * kernel.dimensions[axes.kernel_input_feature_dimension]
    flops *= output[axes.output_batch_dimension] * output[axes.output_feature_dimension]
    spatial = zip(
        convolution.window.dimensions,
        axes.input_spatial_dimensions,
        axes.output_spatial_dimensions,
        strict=True,
    )
    for window, of_image, of_output in spatial:
        flops *= _pairs(window, image.dimensions[of_image], output[of_output])
    return flops


def _pairs(window: xla_data_pb2.WindowDimension, size: int, results: int) -> int:
    """How many pairs of a result and a place in the window meet a number of the image, along one axis."""
    spread = (size - 1) * window.base_dilation + 1
    return sum(
        0 <= at < spread and at % window.base_dilation == 0
        for result in range(results)
        for place in range(window.size)
        for at in (result * window.stride + place * window.window_dilation - window.padding_low,)
    )


# --- Memory, before a compiler fuses anything.


def _values(instructions: Sequence[Instruction]) -> dict[str, int]:
    """All that is computed: an upper bound of what passes through the memory."""
    computed = [each for each in instructions if each.opcode not in (*_FREE, *_CONTROL)]
    sizes = collections.Counter()
    for each in computed:
        sizes[f"{LARGEST}{_text(each.shape)} of {_place(each)}"] += size_of(each.shape)
    return {
        "bytes of all values": sum(sizes.values()),
        "bytes of the largest value": max(size_of(each.shape) for each in computed),
        **_largest(sizes),
    }


def _kept(bodies: Sequence[hlo_pb2.HloComputationProto]) -> dict[str, int]:
    """Values of the forward pass that the backward pass reads: they stay in memory between the two."""
    kept = {each.id: each for body in bodies for each in _read_backward(body)}
    sizes = collections.Counter()
    for each in kept.values():
        sizes[f"{MOST_KEPT}{_place(each)}"] += size_of(each.shape)
    return {"bytes kept for the backward pass": sum(sizes.values()), **_largest(sizes)}


def _read_backward(body: hlo_pb2.HloComputationProto) -> Iterator[Instruction]:
    by_id: dict[int, Instruction] = {}
    later = set()  # what follows from a gradient; operands stand before what reads them
    for reader in body.instructions:
        by_id[reader.id] = reader
        is_backward = _BACKWARD in reader.metadata.op_name
        if is_backward or not later.isdisjoint(reader.operand_ids):
            later.add(reader.id)
        for number in reader.operand_ids if is_backward else ():
            value = by_id[number]
            while value.opcode in _FREE and value.operand_ids:  # they hand on what is there already
                value = by_id[value.operand_ids[0]]
            if value.opcode not in _FREE and value.id not in later:
                yield value


def _largest(sizes: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(sizes.items(), key=lambda each: (-each[1], each[0]))[:_NAMED])


def _place(instruction: Instruction) -> str:
    """The layer that an operation belongs to, as `resnet_1/conv2d_1`: two names at most."""
    # A functional model stands there twice.
    names = [*dict.fromkeys(layer_of(instruction.metadata.op_name).split("/"))]
    return "/".join(names[:_DEPTH])


def size_of(shape: xla_data_pb2.ShapeProto) -> int:
    """Bytes of a value; of all its parts, if it is a tuple."""
    if shape.tuple_shapes:
        return sum(map(size_of, shape.tuple_shapes))
    digits = "".join(filter(str.isdigit, _type(shape))) or "8"  # a boolean takes a byte
    return math.prod(shape.dimensions) * int(digits) // 8


def _type(shape: xla_data_pb2.ShapeProto) -> str:
    return xla_data_pb2.PrimitiveType.Name(shape.element_type).lower()


def _text(shape: xla_data_pb2.ShapeProto) -> str:
    return f"{_type(shape)}[{','.join(map(str, shape.dimensions))}]"
