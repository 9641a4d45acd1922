"""A disk that fills up while a run writes to it: one clear error, nothing left, what was there unharmed."""

import pathlib
import subprocess

import pytest

from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.schema import schema as schema_lib
from tests.shared.fixtures.raw_data import PEOPLE, ROOT, command, people_csv

# Mounts a small disk that no other process sees, publishes one dataset, runs out of room with the next.
_SCRIPT = """
mount -t tmpfs -o size=$1 tmpfs "$2" || exit 99
shift 2
"$@" --input=few.csv --output=disk/1.0.0 > /dev/null || exit 98
"$@" --input=many.csv --output=disk/2.0.0
code=$?
find disk | sort
cp -r disk/1.0.0 kept
exit $code
"""
_NAMESPACE = ("unshare", "--mount", "--user", "--map-root-user")


def can_mount() -> bool:
    try:
        mounted = [*_NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        return subprocess.run(mounted, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


# Full while rows are shuffled; full while records are written.
@pytest.mark.slow
@pytest.mark.parametrize("size", ["1m", "6m"])
@pytest.mark.skipif(not can_mount(), reason="no small disk can be mounted here")
def test_a_full_disk_ends_in_one_line_and_leaves_nothing(tmp_path: pathlib.Path, size: str):
    (tmp_path / "disk").mkdir()
    (tmp_path / "few.csv").write_bytes(people_csv(40))
    (tmp_path / "many.csv").write_bytes(people_csv(50_000))
    lenient = schema_lib.dumps(PEOPLE).replace('"maximum": 150', '"maximum": 1000000')
    (tmp_path / "schema.json").write_text(lenient)
    convert = command("beam_jobs.convert", "--format=csv", "--schema=schema.json")
    done = subprocess.run(
        [*_NAMESPACE, "sh", "-c", _SCRIPT, "sh", size, str(tmp_path / "disk"), *convert],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("error: --output=")
    assert "a disk that is full" in line
    assert not [path for path in done.stdout.splitlines() if path.startswith("disk/2.0.0")]
    assert manifest_lib.open_dataset(tmp_path / "kept").manifest.rows_written == 40


@pytest.mark.slow
def test_what_is_published_stays_where_stdout_takes_nothing(people: pathlib.Path):
    flags = [f"--{name}={people / file}" for name, file in (("input", "people.csv"), ("output", "new"))]
    convert = command("beam_jobs.convert", *flags, f"--schema={people / 'schema.json'}")
    with open("/dev/full", "w") as full:  # noqa: PTH123 - it is no file
        done = subprocess.run(convert, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.endswith(f"the dataset {people / 'new'} is published, and whole.")
    assert manifest_lib.open_dataset(people / "new").manifest.rows_written == 40
