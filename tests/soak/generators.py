"""Small damage to bytes: what disks, networks and half-finished programs do, and what an attacker tries."""

import random
from collections.abc import Callable

_MARKS = (
    b"\0", b"\xff", b"\r", b"\n", b'"', b",", b"{", b"[", b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80",
    b"\xff" * 4, b"\x7f\xff\xff\xff", b"\xff" * 8, b"\0" * 8, b"\x80" * 10, b"1e999", b"NaN", b"\\ud800",
)  # fmt: skip

Mutation = Callable[[bytes, random.Random], bytes]


def flip(data: bytes, draws: random.Random) -> bytes:
    """One bit is another."""
    at = draws.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << draws.randrange(8))]) + data[at + 1 :]


def cut(data: bytes, draws: random.Random) -> bytes:
    """The end is missing."""
    return data[: draws.randrange(len(data))]


def lose(data: bytes, draws: random.Random) -> bytes:
    """A part in the middle is missing."""
    start = draws.randrange(len(data))
    return data[:start] + data[start + draws.randint(1, 64) :]


def repeat(data: bytes, draws: random.Random) -> bytes:
    """A part is there twice."""
    start = draws.randrange(len(data))
    end = start + draws.randint(1, 256)
    return data[:end] + data[start:end] + data[end:]


def insert(data: bytes, draws: random.Random) -> bytes:
    """Bytes that mean something to a parser."""
    at = draws.randint(0, len(data))
    return data[:at] + draws.choice(_MARKS) * draws.randint(1, 3) + data[at:]


def overwrite(data: bytes, draws: random.Random) -> bytes:
    """The same, in place of what was there: lengths and offsets become extreme."""
    mark, at = draws.choice(_MARKS), draws.randrange(len(data))
    return data[:at] + mark + data[at + len(mark) :]


def zero(data: bytes, draws: random.Random) -> bytes:
    """A block of the disk was never written."""
    start = draws.randrange(len(data))
    length = min(draws.choice((16, 128, 512)), len(data) - start)
    return data[:start] + bytes(length) + data[start + length :]


def noise(data: bytes, draws: random.Random) -> bytes:
    """A run of random bytes."""
    start = draws.randrange(len(data))
    length = min(draws.randint(1, 32), len(data) - start)
    return data[:start] + draws.randbytes(length) + data[start + length :]


MUTATIONS: tuple[Mutation, ...] = (flip, flip, cut, lose, repeat, insert, overwrite, zero, noise)


def mutated(data: bytes, draws: random.Random) -> bytes:
    """One to three mutations."""
    for _ in range(draws.choice((1, 1, 2, 3))):
        if data:
            data = draws.choice(MUTATIONS)(data, draws)
    return data
