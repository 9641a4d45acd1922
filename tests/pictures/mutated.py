"""Damages files at random places, as bad disks, transfers and editors do."""

import random
from collections.abc import Callable

Mutation = Callable[[bytearray, random.Random], None]

_HEADER_BYTES = 64  # where most of what a decoder believes stands


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A copy with one to three changes."""
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 3])):
        chance.choice(_MUTATIONS)(changed, chance)
    return bytes(changed)


def _flip_a_bit(data: bytearray, chance: random.Random) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _change_the_header(data: bytearray, chance: random.Random) -> None:
    if data:
        data[chance.randrange(min(len(data), _HEADER_BYTES))] = chance.choice([0, 1, 127, 128, 255])


def _cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data) + 1) :]


def _take_out(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data) + 1)
    del data[at : at + chance.randint(1, 16)]


def _put_in(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data) + 1)
    data[at:at] = chance.randbytes(chance.randint(1, 16))


def _repeat(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data) + 1)
    data[at:at] = data[at : at + 64]


def _append(data: bytearray, chance: random.Random) -> None:
    data += chance.randbytes(chance.choice([1, 2, 3, 100]))


_MUTATIONS: tuple[Mutation, ...] = (
    _flip_a_bit,
    _change_the_header,
    _cut,
    _take_out,
    _put_in,
    _repeat,
    _append,
)
