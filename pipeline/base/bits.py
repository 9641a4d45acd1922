"""Stores whole numbers in as few bits each as the largest of them needs. Standard library and numpy only."""

import numpy as np


def packed(numbers: np.ndarray, bits: int) -> bytes:
    """The lowest `bits` of each of `numbers`, uint64 [n], one after the other; filled up to whole bytes."""
    if not bits:
        return b""
    used = -(-bits // 8)  # bytes of a number
    digits = np.ascontiguousarray(numbers, "<u8").view(np.uint8).reshape(-1, 8)[:, :used]
    in_bits = np.unpackbits(digits, axis=1, bitorder="little")[:, :bits]
    return np.packbits(in_bits, bitorder="little").tobytes()


def unpacked(content: bytes, bits: int, count: int) -> np.ndarray:
    """The inverse of `packed`: uint64 [count]. `content` holds at least `packed_bytes` bytes."""
    if not bits:
        return np.zeros(count, np.uint64)
    each = np.unpackbits(np.frombuffer(content, np.uint8), count=count * bits, bitorder="little")
    digits = np.zeros((count, 8), np.uint8)
    digits[:, : -(-bits // 8)] = np.packbits(each.reshape(count, bits), axis=1, bitorder="little")
    return digits.view("<u8").reshape(count).astype(np.uint64)


def packed_bytes(bits: int, count: int) -> int:
    """The length in bytes of `count` packed numbers of `bits` bits."""
    return -(-bits * count // 8)
