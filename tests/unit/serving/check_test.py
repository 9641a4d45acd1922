"""A sound model passes; each planted fault is stopped, and the reason names it."""

import dataclasses
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from pipeline.data.dataset import statistics as statistics_lib
from pipeline.data.dataset import tfrecord
from pipeline.exporting import export
from pipeline.exporting.runtimes import OTHER_FILES
from pipeline.serving import child
from pipeline.serving.check import check
from pipeline.serving.result import Limits
from tests.house.imports import HOUSE
from tests.shared.faulty_exports import resaved, signed_again, slow, with_other_statistics

pytestmark = pytest.mark.usefixtures("warm")

FEW = Limits(calls=10, rounds=2)


def only_reason(directory, requests, *, limits=FEW, against=None) -> str:
    found = check(directory, requests, against=against, limits=limits)
    assert not found.passed
    return found.reasons[0]


def test_a_sound_model_passes_and_tells_what_it_costs(exported, requests):
    found = check(exported, requests, against=exported, limits=FEW)
    assert found.passed, found.reasons
    assert (found.replayed.calls, found.replayed.rows) == (8, 2 * (0 + 1 + 7 + 40))
    assert (found.replayed.exact, found.replayed.worst) == (True, 0.0)
    assert [latency.rows for latency in found.measured.latency] == [1, 40]
    assert [latency.calls for latency in found.champion.latency] == [10, 10]
    assert all(0 < each.median_ms <= each.p99_ms for each in found.measured.latency)
    assert 0 < found.measured.memory_mib < found.measured.process_mib
    served = [path for path in exported.rglob("*") if path.is_file() and path.name not in OTHER_FILES]
    assert found.measured.disk_mib == pytest.approx(sum(path.stat().st_size for path in served) / 2**20)
    document = json.loads(json.dumps(found.to_json()))
    assert document["passed"] is True
    assert document["measured"]["latency"][1]["rows"] == 40


@pytest.mark.slow
def test_another_build_or_processor_may_differ_within_the_tolerance(exported, requests):
    elsewhere = dataclasses.replace(requests, computed_by={"processor": "another"})
    assert check(exported, elsewhere, against=None, limits=FEW).replayed.exact is False
    calls = [
        dataclasses.replace(call, outputs={name: each * 1.1 for name, each in call.outputs.items()})
        for call in requests.calls
    ]
    reason = only_reason(exported, dataclasses.replace(elsewhere, calls=calls))
    assert reason == (
        "'serving_default' asked with 1 row: output 'probabilities' differs from the recorded by up to "
        "0.0909 of the largest; at most 0.0312 is allowed, on another build or processor than the recording's"
    )


@pytest.mark.slow
def test_a_wrong_vocabulary_in_serving_is_stopped(trained, requests, tmp_path):
    counted = statistics_lib.read(trained.statistics_path)["train"].features["work"].values
    swapped = dataclasses.replace(counted, values=counted.values[::-1])
    export.export_model(with_other_statistics(trained, work={"values": swapped}), tmp_path / "1")
    reason = only_reason(tmp_path / "1", requests)
    assert "output 'probabilities' differs from the recorded in" in reason
    assert reason.endswith("every bit must be the same, on the build and the processor of the recording")


@pytest.mark.slow
def test_a_normalization_left_at_mean_0_is_stopped(trained, requests, tmp_path):
    measured = statistics_lib.read(trained.statistics_path)["train"].features["age"].numeric
    fresh = dataclasses.replace(measured, mean=0.0, std=1.0)
    export.export_model(with_other_statistics(trained, age={"numeric": fresh}), tmp_path / "1")
    reason = only_reason(tmp_path / "1", requests)
    assert "output 'probabilities' differs from the recorded in" in reason


def test_outputs_in_bfloat16_are_stopped(exported, requests, tmp_path):
    def rounded(outputs):
        return {name: tf.cast(values, tf.bfloat16) for name, values in outputs.items()}

    faulty = resaved(exported, tmp_path / "1", change=rounded)
    assert only_reason(faulty, requests) == (
        "signature 'serving_default': output 'probabilities' is bfloat16[None, 2], declared is "
        "float32[None, 2]"
    )


def test_a_renamed_signature_is_stopped(exported, requests, tmp_path):
    faulty = resaved(exported, tmp_path / "1", names={"raw": "rows"})
    assert (
        only_reason(faulty, requests)
        == "signature 'raw' is missing; the model has 'model_inputs', 'prepared', 'rows', 'serving_default'"
    )


@pytest.mark.slow
def test_numbers_that_are_not_finite_are_stopped(exported, requests, tmp_path):
    def broken(outputs):
        return {name: values / 0.0 for name, values in outputs.items()}

    faulty = resaved(exported, tmp_path / "1", change=broken)
    reason = only_reason(faulty, requests)
    assert "output 'probabilities' holds 2 values that are NaN or infinite, of 2" in reason


@pytest.mark.slow
def test_a_truncated_variables_file_is_stopped(exported, requests, tmp_path):
    faulty = shutil.copytree(exported, tmp_path / "1")
    (variables,) = (faulty / "variables").glob("variables.data-*")
    variables.write_bytes(variables.read_bytes()[:-20])
    assert re.match(
        rf"model file {variables}: received SHA-256 \w+…; expected SHA-256", only_reason(faulty, requests)
    )
    reason = only_reason(signed_again(faulty), requests)  # truncated before it was listed
    assert reason.startswith("the process that loads the model raised")
    assert "while it was loaded" in reason


@pytest.mark.slow
def test_a_model_that_is_much_slower_than_the_champion_is_stopped(exported, requests, tmp_path):
    faulty = resaved(exported, tmp_path / "1", change=slow)
    reasons = check(faulty, requests, against=exported, limits=FEW).reasons
    told = r"the median latency of one row is .* ms, \d+\.\d times the champion's .* ms; at most 2 times"
    assert re.match(told, reasons[0])


@pytest.mark.slow
def test_a_model_that_is_much_larger_than_the_champion_is_stopped(exported, requests, tmp_path):
    faulty = resaved(exported, tmp_path / "1", weight=np.zeros(40 << 18, np.float32))  # 40 MiB
    limits = dataclasses.replace(FEW, memory_slack_mib=16.0, median_ratio=1e9, p99_ratio=1e9)
    memory, disk = check(faulty, requests, against=exported, limits=limits).reasons
    assert re.match(r"the memory that the model takes is .* MiB, .* times the champion's .* MiB", memory)
    assert re.match(r"its size on disk is 4\d\.\d MiB, .* times the champion's 0\.\d+ MiB", disk)


@pytest.mark.slow
def test_garbage_that_is_answered_is_stopped(exported, requests, tmp_path):
    class Answers(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
        def serve(self, examples):
            return {"probabilities": tf.zeros([tf.size(examples), 2])}

    faulty = shutil.copytree(exported, tmp_path / "1")
    model = Answers()
    tf.saved_model.save(model, str(faulty), signatures={"serving_default": model.serve})
    alone = {"serving_default": requests.declared["serving_default"]}
    reasons = check(
        signed_again(faulty), dataclasses.replace(requests, declared=alone), against=None, limits=FEW
    ).reasons
    assert (
        "bytes that are no serialized example were answered as if they were one, not with an error" in reasons
    )
    assert "'raw' asked with 7 rows: there is no such signature" in reasons


@pytest.mark.slow
def test_a_process_that_hangs_is_ended_in_time(exported, requests, tmp_path):
    def forever(outputs):
        stuck = tf.while_loop(lambda step: step >= 0, lambda step: (step + 1) % 7, [0])
        return {name: values + tf.cast(stuck, tf.float32) for name, values in outputs.items()}

    faulty = resaved(exported, tmp_path / "1", change=forever)
    assert only_reason(faulty, requests, limits=dataclasses.replace(FEW, seconds=3.0)) == (
        "the process that loads the model did not answer within 3 seconds while it answered the recorded "
        "requests, and was killed"
    )


@pytest.mark.slow
def test_a_process_that_needs_more_memory_than_it_may_have_is_told_of(exported, requests):
    reason = only_reason(exported, requests, limits=dataclasses.replace(FEW, process_mib=1))
    assert reason.startswith("the process that loads the model crashed (SIG"), reason


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
            "was killed (SIGKILL), as the kernel does",
        ),
        ("import os; os.abort()", "crashed (SIGABRT) while it started"),
        (
            "raise SystemExit('no libtensorflow')",
            "exit code 1 while it started; it said last: no libtensorflow",
        ),
    ],
)
def test_a_process_that_ends_is_told_of(code, told, monkeypatch, exported, requests):
    monkeypatch.setattr(child, "_PROBE", "-c")
    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda command, **rest: start([command[0], "-c", code], **rest))
    assert told in only_reason(exported, requests)


def test_what_a_process_prints_is_no_answer(tmp_path, monkeypatch):
    code = """
import json, sys
print("starting"); print([1]); print("{}")
for line in sys.stdin:
    print("{ asked"); print(json.dumps({"answer": {"was": json.loads(line)["ask"]}}), flush=True)
"""
    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda command, **rest: start([command[0], "-uc", code], **rest))
    with child.Child(tmp_path, tmp_path, name="the process", seconds=60) as process:
        assert process.load() == {"was": "load"}


def test_a_champion_that_is_gone_is_told_of(exported, requests, tmp_path):
    reason = only_reason(exported, requests, against=tmp_path / "gone")
    assert reason.startswith(f"the champion's process, of {tmp_path / 'gone'}, raised ")


@pytest.mark.slow
def test_a_champion_that_cannot_read_the_requests_is_timed_with_its_own(exported, requests, tmp_path):
    class Older(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
        def serve(self, examples):
            read = tf.io.parse_example(examples, {"height": tf.io.FixedLenFeature([], tf.float32)})
            return {"value": read["height"]}

    model = Older()
    tf.saved_model.save(model, str(tmp_path / "old"), signatures={"serving_default": model.serve})
    features = {"height": tf.train.Feature(float_list=tf.train.FloatList(value=[1.8]))}
    example = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
    (tmp_path / "old" / "golden.tfrecord").write_bytes(tfrecord.frame([example]))
    found = check(exported, requests, against=tmp_path / "old", limits=FEW)
    assert found.measured.asked == "the recorded requests"
    assert found.champion.asked == "its own golden.tfrecord"
    assert [each.rows for each in found.champion.latency] == [1, 40]


def test_what_loads_the_model_knows_neither_keras_nor_our_layers():
    reached, ahead = set(), ["pipeline/serving/probe.py"]
    while ahead:
        here = ahead.pop()
        reached.add(here)
        assert not [one.module for one in HOUSE.imports[here] if one.eager and one.module.startswith("keras")]
        ahead += HOUSE.ours(here, eager_only=True) - reached
    assert not [path for path in reached if "preprocessing" in path or "training" in path]
