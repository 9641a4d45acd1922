"""Freed memory stays: the kernel hands out no page for what is allocated again. Cycles are left for later."""

import gc
import subprocess
import sys
import threading

import pytest

from pipeline.base import process_memory

PAGE = 4096
SIZES = (20 << 20, 30 << 20, 25 << 20)  # of blocks that live together

# Allocates blocks, writes to each page of them and frees them, again and again, in a thread that is not the
# main one; prints how many pages the kernel handed out, after the first rounds.
ROUNDS = f"""
import ctypes, resource, sys, threading
from pipeline.base import process_memory

library = ctypes.CDLL(None)
library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
library.free.argtypes = [ctypes.c_void_p]
if sys.argv[1] == "keep":
    assert process_memory.keep_freed()
elif sys.argv[1] == "quiet":
    from pipeline.base import tensorflow_start

def rounds(count):
    for _ in range(count):
        blocks = [library.malloc(size) for size in {SIZES}]
        for block, size in zip(blocks, {SIZES}):
            ctypes.memset(block, 1, size)
        for block in blocks:
            library.free(block)

def measured():
    rounds(4)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    rounds(4)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)

thread = threading.Thread(target=measured)
thread.start()
thread.join()
"""

needs_glibc = pytest.mark.skipif(not process_memory.is_glibc(), reason="the C library is none of GNU's")


def pages_of(how: str) -> int:
    command = [sys.executable, "-c", ROUNDS, how]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.slow
@needs_glibc
def test_what_is_freed_is_allocated_again_without_the_kernel():
    of_all = 4 * sum(SIZES) // PAGE
    assert pages_of("default") > of_all // 5
    assert pages_of("keep") < of_all // 100
    assert pages_of("quiet") < of_all // 100  # as the commands do


@pytest.mark.parametrize(
    "environment",
    [
        {"MALLOC_TRIM_THRESHOLD_": "1"},
        {"MALLOC_TOP_PAD_": "1"},
        {"GLIBC_TUNABLES": "glibc.malloc.arena_max=2:glibc.malloc.mmap_threshold=65536"},
    ],
)
def test_what_the_environment_sets_stands(environment: dict[str, str]):
    assert not process_memory.keep_freed(environment)


@needs_glibc
def test_other_settings_of_the_environment_stand_beside_it():
    # Hadoop sets the first one for whatever it starts.
    assert process_memory.keep_freed(
        {"MALLOC_ARENA_MAX": "4", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=7"}
    )


@process_memory.uncollected()
def collections_of(objects: int) -> int:
    before = sum(generation["collections"] for generation in gc.get_stats())
    assert len([[] for _ in range(objects)]) == objects
    return sum(generation["collections"] for generation in gc.get_stats()) - before


def test_no_cycles_are_looked_for_meanwhile_and_again_afterwards():
    assert collections_of(100_000) == 0
    assert gc.isenabled()


def test_where_none_are_looked_for_it_stays_so_even_after_an_error():
    with pytest.raises(KeyError), process_memory.uncollected():
        raise KeyError
    assert gc.isenabled()
    gc.disable()
    try:
        with process_memory.uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_blocks_of_several_threads_end_in_any_order():
    begun, ended = threading.Event(), threading.Event()

    def other() -> None:
        with process_memory.uncollected():
            begun.set()
            ended.wait()

    thread = threading.Thread(target=other)
    with process_memory.uncollected():
        thread.start()
        begun.wait()
    assert not gc.isenabled()  # the other thread is still inside
    ended.set()
    thread.join()
    assert gc.isenabled()


def test_one_block_within_another():
    with process_memory.uncollected():
        with process_memory.uncollected():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
