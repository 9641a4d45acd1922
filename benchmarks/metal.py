r"""What a machine with an accelerator does with this project: one page and its JSON, in ten minutes at most.

  make gpu-check                     # or: python -m benchmarks.metal
  make tpu-check TARGET=v5e:2x4      # or: python -m benchmarks.metal --target=v5e:2x4

fed         the tabular default and pictures: how much of the time the chip computes, MFU, preflight's bound
resume      a deterministic run that is killed and goes on, beside the same run undisturbed
precision   the same steps in float32, bfloat16 and float16
replicas    the same steps on all devices, beside one
beside      a step beside `model.fit`, and beside torch if there is an environment of `make peers`

Each part runs commands in processes of their own. A part that fails leaves its error on the page, and the
others go on. Where no accelerator is found, all runs on the processor, whose halves play two devices: that is
a rehearsal, and the page says so. Datasets are made up. The exit code is 1 if a part failed.

Hardware: GPUs of one machine with requirements/gpu.txt, a TPU VM with requirements/tpu.txt, or none.
"""

import json
import pathlib
import shutil
import time
from collections.abc import Sequence

from absl import app, flags

from benchmarks.accelerator import page
from benchmarks.accelerator.parts import METAL, PARTS, QUICK, REHEARSAL, Check, results
from benchmarks.commands import run_python
from pipeline.base import files
from pipeline.base.errors import InputError, answers_bad_input
from pipeline.report import html, terminal

_FOLDER = flags.DEFINE_string("folder", "build/metal", "Where datasets, runs, page.html and page.json go.")
_PARTS = flags.DEFINE_list("parts", [], "Only these parts.")
_TARGET = flags.DEFINE_string("target", "", "What preflight forecasts, such as v5e:2x4; a GPU is recognised.")
_PEERS = flags.DEFINE_string("peers", "build/peers", "Virtual environment of requirements/peers.txt.")
_MINUTES = flags.DEFINE_float("minutes", 10.0, "What is not done by then is left out.", lower_bound=0.0)
_QUICK = flags.DEFINE_bool("quick", False, "The fewest steps: shows that it runs; no figure means anything.")


@answers_bad_input
def main(argv: Sequence[str]) -> int:
    del argv
    if unknown := set(_PARTS.value) - set(PARTS):
        raise InputError(
            "--parts", received=", ".join(sorted(unknown)), expected=", ".join(PARTS), action="Correct it."
        )
    ends, folder = time.monotonic() + 60 * _MINUTES.value, pathlib.Path(_FOLDER.value).absolute()
    for old in ("runs", "answers"):
        shutil.rmtree(folder / old, ignore_errors=True)
    probe = ("-m", "benchmarks.accelerator.probe", "devices")
    seen = json.loads(run_python(*probe, timeout_s=60 * _MINUTES.value))
    size = QUICK if _QUICK.value else REHEARSAL if seen["kind"] == "CPU" else METAL
    check = Check(folder=folder, seen=seen, size=size, ends=ends, asked=_TARGET.value, peers=_PEERS.value)
    chosen = {name: part for name, part in PARTS.items() if not _PARTS.value or name in _PARTS.value}
    document = {
        "rehearsal": check.is_rehearsal,
        "quick": _QUICK.value,
        "devices": check.devices,
        "seen": seen,
        "parts": results(check, chosen),
    }
    head, *sections = page.sections(document)
    files.write_json(folder / "page.json", document)
    files.write_bytes(folder / "page.html", html.page(head, sections).encode())
    print(terminal.render([head, *sections]))
    print(f"\npage: {folder / 'page.html'}")
    return int(any("error" in each for each in document["parts"].values()))


if __name__ == "__main__":
    app.run(main)
