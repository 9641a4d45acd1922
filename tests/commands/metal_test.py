"""`benchmarks.metal --quick`, a rehearsal on this processor; and Keras on JAX, where JAX is installed."""

import json
import os
import subprocess
import sys

import pytest

from benchmarks.accelerator import datasets
from tests.house.imports import ROOT


@pytest.mark.slow
def test_a_rehearsal_fills_the_page(tmp_path):
    parts = ("fed_table", "resume", "replicas")  # the others run the same commands
    flags = ("--quick", "--minutes=60", f"--parts={','.join(parts)}", f"--folder={tmp_path}")
    command = [sys.executable, "-m", "benchmarks.metal", *flags]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    document = json.loads((tmp_path / "page.json").read_text())
    found = {name: each.get("error", "") for name, each in document["parts"].items()}
    assert found == dict.fromkeys(parts, ""), done.stderr
    assert done.returncode == 0
    figures = {name: each["figures"] for name, each in document["parts"].items()}
    assert figures["resume"]["differing"] == 0 < figures["resume"]["arrays"]
    assert 0 < figures["fed_table"]["fed"] <= 1
    assert figures["fed_table"]["forecast"]["target"] == "h100:2"
    assert (figures["replicas"]["one"]["replicas"], figures["replicas"]["all"]["replicas"]) == (1, 2)
    assert figures["replicas"]["difference"]["largest"] < 1e-2  # Adam makes much of rounding
    assert "A rehearsal: no accelerator was found" in (tmp_path / "page.html").read_text()


@pytest.mark.slow
def test_keras_on_jax_is_fed_without_tensorflow(tmp_path):
    pytest.importorskip("jax", reason="jax is no requirement: requirements/preflight.txt has it")
    datasets.table(tmp_path, rows=4_096)
    program = (
        "import sys; sys.modules['tensorflow'] = None; import runpy;"
        "runpy.run_module('benchmarks.peers.keras_on_jax', run_name='__main__', alter_sys=True)"
    )
    flags = (f"--data={tmp_path}", "--steps=3", "--feed=table_blocks", f"--json={tmp_path / 'found.json'}")
    subprocess.run([sys.executable, "-c", program, *flags], cwd=ROOT, check=True)
    found = json.loads((tmp_path / "found.json").read_text())["feeds"]["table_blocks"]
    assert 0 < found["fed"]["own"] <= 1
    assert found["examples_per_core_s"] > 0 < found["flops"]
