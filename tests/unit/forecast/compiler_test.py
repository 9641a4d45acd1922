"""The process of the compiler: what it says, and what becomes of one that hangs, dies or is missing."""

import dataclasses
import importlib.util
import json
import sys

import pytest

from pipeline.base.errors import InputError
from pipeline.forecast import compiler
from pipeline.forecast.compiler import ENDED, FITS, TIMED_OUT, Compiled


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Makes a shell script take the place of the compiler's process."""
    monkeypatch.setattr(compiler, "_key", lambda program, topology, *others: f"{topology}-key")

    def made(script: str) -> None:
        file = tmp_path / "python"
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(file))

    return made


def test_an_answer_is_kept_for_the_same_program(tmp_path, program):
    fits = Compiled(verdict=FITS, flops=8.0, cycles={"dense": 3})
    program(f"echo a log line; echo '{json.dumps(dataclasses.asdict(fits))}'")
    assert compiler.compile_for(b"", "v5e:2x2", timeout_s=60, cache=tmp_path / "cache") == fits
    program("exit 3")
    assert compiler.compile_for(b"", "v5e:2x2", timeout_s=60, cache=tmp_path / "cache") == fits
    assert compiler.compile_for(b"", "v6e:2x2", timeout_s=60, cache=tmp_path / "cache").verdict == ENDED


@pytest.mark.parametrize("damaged", ['{"verdict": "fi', '{"verdict": "fits", "more": 1}', "[]", ""])
def test_a_damaged_answer_is_asked_for_again(tmp_path, program, damaged):
    (tmp_path / "v5e:2x2-key.json").write_text(damaged)
    program(f"echo '{json.dumps(dataclasses.asdict(Compiled(verdict=FITS)))}'")
    assert compiler.compile_for(b"", "v5e:2x2", timeout_s=60, cache=tmp_path).verdict == FITS
    assert json.loads((tmp_path / "v5e:2x2-key.json").read_text())["verdict"] == FITS


def test_a_compiler_that_hangs_or_dies_has_a_verdict_and_is_asked_again(tmp_path, program):
    program("exec sleep 60")
    hung = compiler.compile_for(b"", "v5e:2x2", timeout_s=0.2, cache=tmp_path / "cache")
    assert (hung.verdict, hung.message) == (TIMED_OUT, "no answer within 0.2 s")
    program("echo Check failed >&2; kill -9 $$")
    dead = compiler.compile_for(b"", "v5e:2x2", timeout_s=60, cache=tmp_path / "cache")
    assert (dead.verdict, dead.message) == (ENDED, "signal 9: Check failed")
    assert not (tmp_path / "cache").exists()


def test_the_last_words_of_a_compiler_are_the_cause_and_not_what_follows_it():
    said = """I1129 20:31:08.053576   12554 pjrt_api.cc:119] GetPjrtApi was found
*** SIGSEGV STACK OVERFLOW received by PID 12554 (TID 12576) on cpu 1; stack trace: ***
    @     0x7fb27da0cfd3       1888  FailureSignalHandler()
E1129 20:31:19.258202   12576 process_state.cc:708] RAW: Raising signal 11 with default behavior
"""
    assert compiler.last_words(said).startswith("*** SIGSEGV STACK OVERFLOW received")
    assert compiler.last_words("F1129 20:31:19.2 12576 hlo.cc:7] Check failed: no layout") == (
        "Check failed: no layout"
    )
    assert compiler.last_words("\n") == "it said nothing"


def test_missing_packages_are_named_with_what_brings_them(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"without jax, jaxlib, libtpu.*requirements/preflight\.txt"):
        compiler.require_installed()


@pytest.mark.parametrize(
    ("message", "used", "limit"),
    [
        ("XLA:TPU compile permanent error. Used 20.5G of 15.75G hbm. Exceeded by 4.75G", 20.5, 15.75),
        ("memory required for HLO temporaries (17.90G) exceeds available HBM (15.75G).", 17.9, 15.75),
    ],
)
def test_both_forms_of_too_little_memory_are_read(message, used, limit):
    found = compiler._MEMORY.search(message).groups()
    assert compiler._bytes(*found[:2]) == used * 2**30
    assert compiler._bytes(*found[2:]) == limit * 2**30


def test_a_slice_of_one_chip_is_a_host_of_its_own_and_a_v4_has_both_cores():
    alone = {"chips_per_host_bounds": (1, 1, 1)}
    assert compiler._layout("v5e:1x1") == compiler._layout("tpu7x:1x1x1") == alone
    assert compiler._layout("v5e:2x4") == compiler._layout("v5p:2x2x1") == {}
    assert compiler._layout("v4:2x2x1") == {"chip_config_name": "megacore"}
    assert compiler._layout("v4:1x1x1") == {"chip_config_name": "megacore", **alone}


def test_the_order_of_a_maps_entries_makes_no_other_program():
    x, y = b"\n\x0f\n\x06grad_x\x12\x05false", b"\n\x0e\n\x06grad_y\x12\x04true"
    other = b"\n\x0f\n\x06grad_y\x12\x05false"
    assert compiler._ordered(b"a" + x + y + b"b") == compiler._ordered(b"a" + y + x + b"b")
    assert compiler._ordered(b"a" + x + y + b"b") != compiler._ordered(b"a" + x + other + b"b")


@pytest.mark.parametrize(
    ("operation", "scope"),
    [
        ("mlp_1/dense_1/MatMul", "mlp_1/dense_1"),
        ("gradient_tape/mlp_1/dense_1/MatMul/MatMul", "mlp_1/dense_1/MatMul"),
        ("adam_w/AssignSubVariableOp_9", "adam_w"),
        ("Sum", "other"),
    ],
)
def test_an_operation_belongs_to_its_scope(operation, scope):
    assert compiler.layer_of(operation) == scope


def test_operations_between_devices_are_counted_by_their_bytes():
    text = """
      %all-reduce.1 = f32[256,512]{1,0:T(8,128)} all-reduce(%p), channel_id=1
      %start = (f32[64]{0}, bf16[3,5]{1,0}) all-reduce-start(%a, %b), channel_id=2
      %done = (f32[64]{0}, bf16[3,5]{1,0}) all-reduce-done(%start)
      %gather = s32[] all-gather(%c)
    """
    assert compiler.collectives(text) == {"all-reduce": 4 * (256 * 512 + 64) + 2 * 15, "all-gather": 4}
