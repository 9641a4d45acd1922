"""A remote output, on a file system like an object store's: claimed, cleared, never overwritten."""

import pathlib
import tempfile
from collections.abc import Iterator

import pytest
from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.localfilesystem import LocalFileSystem

from beam_jobs.launch import output as output_lib
from beam_jobs.launch.claims import CLAIM_MARK
from pipeline.base.errors import InputError

_DISK = pathlib.Path(tempfile.mkdtemp(prefix="penstock-bucket-"))


class BucketFileSystem(LocalFileSystem):
    """`bucket://name`: names without directories, each a file of that name with its slashes quoted."""

    @classmethod
    def scheme(cls) -> str:
        return "bucket"

    def has_dirs(self) -> bool:
        return False

    def join(self, base: str, *paths: str) -> str:
        return "/".join([base, *paths])

    def create(self, path: str, *arguments: object, **options: object) -> object:
        return super().create(_on_disk(path), *arguments, **options)

    def exists(self, path: str) -> bool:
        return super().exists(_on_disk(path))

    def delete(self, paths: list[str]) -> None:
        for path in paths:
            pathlib.Path(_on_disk(path)).unlink()

    def _list(self, prefix: str) -> Iterator[FileMetadata]:
        for file in _DISK.iterdir():
            path = "bucket://" + file.name.replace("%", "/")
            if path.startswith(prefix):
                yield FileMetadata(path, file.stat().st_size)


def _on_disk(path: str) -> str:
    return str(_DISK / path.removeprefix("bucket://").replace("/", "%"))


def put(path: str) -> None:
    with FileSystems.create(path, compression_type="uncompressed") as file:
        file.write(b"content")


def names(output: str) -> list[str]:
    found = FileSystems.match([f"{output}/**"])[0].metadata_list
    return sorted(match.path.removeprefix(f"{output}/") for match in found)


def test_workers_find_the_directory_of_a_run_that_lasts(tmp_path: pathlib.Path):
    output = f"bucket://{tmp_path.name}"
    with output_lib.claimed(output) as claimed:
        assert claimed.shared.startswith(f"{output}/_tmp/")
        assert FileSystems.exists(claimed.shared)
        put(f"{output}/x-train.tfrecord-00000-of-00001")
    assert names(output) == ["x-train.tfrecord-00000-of-00001"]


def test_a_run_that_is_killed_as_it_begins_leaves_what_the_next_clears(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    output, created = f"bucket://{tmp_path.name}", []
    create = BucketFileSystem.create
    recorded = lambda self, path, *rest, **more: created.append(path) or create(self, path, *rest, **more)  # noqa: E731
    monkeypatch.setattr(BucketFileSystem, "create", recorded)
    with output_lib.claimed(output):
        assert created[0] == f"{output}/{CLAIM_MARK}"


def test_the_vouching_file_is_uploaded_last(tmp_path: pathlib.Path):
    output = f"bucket://{tmp_path.name}"
    with output_lib.claimed(output) as claimed:
        (claimed.directory / "rejected").mkdir()
        (claimed.directory / "rejected" / "rejected.jsonl").write_text("")
        claimed.commit("manifest.json", "{}")
        assert set(names(output)) > {"rejected/rejected.jsonl", "manifest.json"}
        with pytest.raises(InputError, match="a published dataset"):
            claimed.commit("manifest.json", "{}")
    assert names(output) == ["manifest.json", "rejected/rejected.jsonl"]


def test_a_run_that_fails_leaves_no_trace(tmp_path: pathlib.Path):
    output = f"bucket://{tmp_path.name}"
    with pytest.raises(ZeroDivisionError), output_lib.claimed(output) as claimed:
        put(f"{claimed.shared}/shard")
        put(f"{output}/x-train.tfrecord-00000-of-00001")
        _ = 1 / 0
    assert names(output) == []


def test_leftovers_of_a_killed_run_are_cleared_away(tmp_path: pathlib.Path):
    output = f"bucket://{tmp_path.name}"
    for name in (CLAIM_MARK, "_tmp/1", "_tmp/1/shard", "schema.json", "rejected/rejected.jsonl"):
        put(f"{output}/{name}")
    with output_lib.claimed(output):
        assert not {"schema.json", "_tmp/1/shard"} & {*names(output)}


@pytest.mark.parametrize(
    ("there", "message"),
    [
        ("_tmp/thesis.tex", "_tmp"),
        ("thesis.tex", "thesis.tex"),
        ("schema.json", "schema.json"),
        ("manifest.json", "a published dataset"),
    ],
)
def test_what_somebody_put_there_is_refused_and_kept(tmp_path: pathlib.Path, there: str, message: str):
    output = f"bucket://{tmp_path.name}"
    put(f"{output}/{there}")
    with pytest.raises(InputError, match=message), output_lib.claimed(output):
        pass
    assert names(output) == [there]


def test_a_file_system_that_beam_does_not_know_is_refused():
    with pytest.raises(InputError, match="a location that Beam reaches"), output_lib.claimed("no://where"):
        pass
