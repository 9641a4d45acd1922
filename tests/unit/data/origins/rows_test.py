"""Numbers of files and rows come back from as few bits as they need; other bytes are noticed."""

import numpy as np
import pytest

from pipeline.base.errors import DamagedError
from pipeline.data.origins import files as files_lib
from pipeline.data.origins.files import CHUNK_ROWS

SHA256 = "ab" * 32
ID = bytes(range(16))


def packed(files: np.ndarray, numbers: np.ndarray) -> bytes:
    return b"".join(files_lib.pack_rows(files_lib.place(files, numbers), files_id=ID, shard_sha256=SHA256))


def unpacked(content: bytes) -> list[tuple[int, int]]:
    header = files_lib.header(content)
    found = []
    for chunk in range(header.chunks):
        offset, count = header.chunk(chunk)
        part = content[offset : offset + header.chunk_bytes(count)]
        found += zip(*map(np.ndarray.tolist, files_lib.unpack_rows(part, header, count)), strict=True)
    return found


@pytest.mark.parametrize("count", [0, 1, 7, CHUNK_ROWS, CHUNK_ROWS + 1, 3 * CHUNK_ROWS])
@pytest.mark.parametrize(
    ("files", "most"), [(1, 1), (1, 1 << 32), (1 << 32, 1), (3, 48_842), (1 << 31, 1 << 31)]
)
def test_every_row_is_found_again(count: int, files: int, most: int):
    random = np.random.default_rng(count)
    numbers, in_file = random.integers(0, files, count), random.integers(0, most, count)
    content = packed(numbers, in_file)
    assert unpacked(content) == list(zip(numbers.tolist(), in_file.tolist(), strict=True))
    assert files_lib.header(content).bytes == len(content)
    assert (files_lib.header(content).files_id, files_lib.header(content).shard_sha256) == (ID, SHA256)


def test_a_row_takes_the_bits_that_it_needs():
    count = 100 * CHUNK_ROWS  # of a file of a million rows, where 20 bits are 2.5 bytes
    content = packed(np.full(count, 7), np.random.default_rng(0).integers(0, 1 << 20, count))
    assert 2.5 < len(content) / count < 2.51


def test_a_number_too_large_is_unknown():
    content = packed(np.array([5, 5, 5]), np.array([1 << 32, -1, (1 << 32) - 1]))
    assert unpacked(content) == [(5, 0), (5, 0), (5, (1 << 32) - 1)]


def test_every_flipped_bit_is_noticed():
    content = packed(np.array([1, 2, 3]), np.array([10, 2000, 30]))
    for bit in range(len(content) * 8):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedError):
            unpacked(bytes(damaged))
    for end in range(len(content)):
        with pytest.raises(DamagedError):
            unpacked(content[:end])
