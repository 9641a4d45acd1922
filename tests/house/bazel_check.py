"""Builds every target with Bazel, runs some tests with it, and plants imports that it must refuse.

  python -m tests.house.bazel_check [--test=LABEL,…]

Debian's `bazel-bootstrap` (4.2.3) is enough, and no network: local repositories stand in for rules_python and
for the hubs of MODULE.bazel, with the libraries of the Python that runs this. All of it happens in a copy.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from absl import app, flags

from tests.house import build_files, build_test, imports

_TESTS = flags.DEFINE_list("test", [], "LABEL: of the tests to run; empty: those of the gate.")

RULES = '''"""What BUILD files here use of rules_python. Python is the one on PATH, and has the libraries."""

py_library = native.py_library

def _program(ctx):
    what = "-m " + ctx.attr.main_module if ctx.attr.main_module else ctx.files.srcs[0].short_path
    ctx.actions.write(
        ctx.outputs.executable,
        "#!/bin/sh\\nPYTHONPATH=. exec python %s \\"$@\\"\\n" % what,
        is_executable = True,
    )
    found = ctx.runfiles(files = ctx.files.srcs + ctx.files.data)
    for dep in ctx.attr.deps:
        found = found.merge(dep[DefaultInfo].default_runfiles)
    return [DefaultInfo(runfiles = found)]

_ATTRIBUTES = {
    "data": attr.label_list(allow_files = True),
    "deps": attr.label_list(providers = [PyInfo]),
    "main_module": attr.string(),
    "srcs": attr.label_list(allow_files = [".py"]),
}

py_binary = rule(implementation = _program, attrs = _ATTRIBUTES, executable = True)
py_test = rule(implementation = _program, attrs = _ATTRIBUTES, test = True)
'''
LIBRARY = 'py_library(name = "{name}", visibility = ["//visibility:public"])\n'
# Bazel names a target of this repository for each test, and uses it for `bazel coverage` only.
COVERAGE = 'filegroup(name = "coverage_report_generator", visibility = ["//visibility:public"])\n'

# The importing file, the imported module, the label that the BUILD file then names.
PLANTED = (
    ("models/registry.py", "pipeline.base.errors", "//pipeline/base"),
    ("beam_jobs/cells/text.py", "pipeline.gate.rules", "//pipeline/gate"),
    ("pipeline/gate/metrics.py", "pipeline.data.reading.order", "//pipeline/data"),
    ("pipeline/data/schema/feature.py", "pipeline.training.loop.outer", "//pipeline/training"),
)
# How Bazel says that the imported room is closed to the importing one, or that it imports it already.
REFUSALS = ("is not visible from", "cycle in dependency graph")


def main(argv: Sequence[str]) -> int:
    del argv
    if not shutil.which("bazel"):
        print("bazel-check needs bazel: `apt-get install bazel-bootstrap`", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        house = copied(pathlib.Path(folder))
        ended = bazel(house, "build", "//...")
        if ended.returncode:
            print(ended.stderr[-4000:])
            return 1
        print("built", re.search(r"Analyzed \d+ targets", ended.stderr)[0].split()[1], "targets", flush=True)
        ended = bazel(house, "test", "--test_output=errors", *(_TESTS.value or of_the_gate()))
        print(ended.stdout[-4000:], flush=True)
        return ended.returncode or int(not all(refused(house, *planted) for planted in PLANTED))


def of_the_gate() -> list[str]:
    """The tests of a room that needs few libraries."""
    paths = [path for path in build_test.FILES if "/gate/" in path and path.endswith("_test.py")]
    homes = [build_test.home(path) for path in paths]
    return [f"//{one}:{path[len(one) + 1 : -3]}" for one, path in zip(homes, paths, strict=True)]


def copied(folder: pathlib.Path) -> pathlib.Path:
    """The checkout, as a workspace of Bazel 4 beside its stand-ins."""
    house, stand_in = folder / "penstock", folder / "stand_in"
    listed = subprocess.run(["git", "ls-files"], cwd=imports.ROOT, check=True, capture_output=True, text=True)
    for name in filter(lambda name: (imports.ROOT / name).is_file(), listed.stdout.splitlines()):
        write(house / name, (imports.ROOT / name).read_bytes())
    hubs = build_files.hubs()
    write(stand_in / "WORKSPACE", b"")
    write(stand_in / "BUILD", COVERAGE.encode())
    write(stand_in / "python" / "BUILD", b"")
    write(stand_in / "python" / "defs.bzl", RULES.encode())
    for library in {name.replace("-", "_") for names in hubs.values() for name in names}:
        write(stand_in / library / "BUILD", LIBRARY.format(name=library).encode())
    repositories = ["rules_python", "remote_coverage_tools", *hubs]
    lines = [f'local_repository(name = "{name}", path = "{stand_in}")\n' for name in repositories]
    write(house / "WORKSPACE", "".join(lines).encode())
    return house


def write(path: pathlib.Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def bazel(house: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess:
    command = ["bazel", f"--output_user_root={house.parent / 'root'}", "--batch", *arguments]
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    more = ["--noshow_progress", f"--test_env=PATH={path}"]
    return subprocess.run([*command, *more], cwd=house, capture_output=True, text=True, check=False)


def refused(house: pathlib.Path, file: str, module: str, label: str) -> bool:
    """Whether Bazel refuses an import that its BUILD file names."""
    path = house / file
    build = path.parent / "BUILD"
    before = path.read_bytes(), build.read_text()
    path.write_bytes(before[0] + f"\nimport {module}\n".encode())
    build.write_text(with_dep(before[1], label))
    ended = bazel(house, "build", f"//{path.parent.relative_to(house)}/...")
    path.write_bytes(before[0])
    build.write_text(before[1])
    found = [refusal for refusal in REFUSALS if refusal in ended.stderr]
    told = f"refused ({found[0]})" if found else f"NOT REFUSED\n{ended.stderr[-2000:]}\n"
    print(f"{told}: {file} imports {module}", flush=True)
    return bool(found)


def with_dep(build: str, label: str) -> str:
    """The text of a BUILD file whose target with sources names one more label."""
    start = build.index("srcs = ")
    target, rest = build[:start], build[start:]
    end = rest.index("\n)")
    body = rest[:end]
    more = body.replace("deps = [", f'deps = ["{label}", ', 1)
    return target + (more if more != body else f'{body}\n    deps = ["{label}"],') + rest[end:]


if __name__ == "__main__":
    app.run(main)
