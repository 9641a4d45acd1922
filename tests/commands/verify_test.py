"""Verifying as a user does: sound, damaged, and against an earlier version."""

import dataclasses
import json
import os
import pathlib
import shutil
from collections.abc import Callable

import pytest

from pipeline.data.dataset import manifest as manifest_lib
from pipeline.data.dataset import shards
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.schema import Schema
from tests.shared.fixtures.raw_data import PEOPLE, Ended, RunBinary, people_csv


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, run_binary: RunBinary) -> Callable[..., pathlib.Path]:
    """Converts people, each version once; gives a copy that may be damaged."""
    root = tmp_path_factory.mktemp("published")

    def convert(csv: bytes, *, name: str, schema: Schema = PEOPLE, layout: str = "rows") -> pathlib.Path:
        (root / f"{name}.csv").write_bytes(csv)
        schema_lib.save(schema, root / "schema.json")
        ended = run_binary(
            "beam_jobs.convert",
            *("--format=csv", f"--schema={root / 'schema.json'}", f"--output={root / name}"),
            *(f"--input={root / f'{name}.csv'}", "--splits=train=0.5,test=0.5", f"--layout={layout}"),
        )
        assert ended.code == 0, ended.err
        return root / name

    return convert


@pytest.fixture(scope="module")
def people(published: Callable[..., pathlib.Path]) -> pathlib.Path:
    return published(people_csv(400), name="people", schema=lenient())


def lenient(row_id: tuple[str, ...] = ()) -> Schema:
    document = json.loads(schema_lib.dumps(PEOPLE).replace("150", "1000"))
    return schema_lib.from_json({**document, "row_id": list(row_id)})


Verify = Callable[..., tuple[Ended, dict]]


@pytest.fixture
def verify(run_binary: RunBinary) -> Verify:
    def verify(*flags: object) -> tuple[Ended, dict]:
        directory = pathlib.Path(str(flags[0]))
        ended = run_binary("beam_jobs.verify", *flags, f"--json={directory.parent / 'found.json'}")
        return ended, json.loads((directory.parent / "found.json").read_text())

    return verify


def copied(dataset: pathlib.Path, to: pathlib.Path) -> tuple[pathlib.Path, manifest_lib.Shard]:
    """A copy to damage, and its train shard."""
    shutil.copytree(dataset, to)
    return to, manifest_lib.load(to).splits["train"][0]


def test_a_sound_dataset(people: pathlib.Path, verify: Verify):
    ended, found = verify(people)
    assert (ended.code, ended.err) == (0, "")
    assert "sound" in ended.out
    assert (found["dataset"]["sound"], found["dataset"]["rows"]) == (True, 400)


def test_a_flipped_byte_is_named_with_record_and_offset(
    people: pathlib.Path, tmp_path: pathlib.Path, verify: Verify
):
    directory, shard = copied(people, tmp_path / "damaged")
    content = bytearray((directory / shard.path).read_bytes())
    content[len(content) // 2] ^= 1
    (directory / shard.path).write_bytes(content)
    ended, found = verify(directory)
    assert ended.code == 2
    damaged = [problem for problem in found["dataset"]["problems"] if problem["record"] is not None]
    assert damaged[0]["file"] == shard.path
    assert "checksum" in damaged[0]["problem"]
    assert damaged[0]["offset"] < len(content) // 2
    assert found["dataset"]["rows"] == 399
    assert f"{damaged[0]['record']:,}" in ended.out
    assert {problem["file"] for problem in found["dataset"]["problems"]} == {shard.path}


def test_missing_and_changed_files_are_named(people: pathlib.Path, tmp_path: pathlib.Path, verify: Verify):
    directory, shard = copied(people, tmp_path / "damaged")
    (directory / shard.path).unlink()
    with (directory / "dataset_info.json").open("a") as file:
        file.write(" ")
    ended, found = verify(directory)
    problems = {problem["file"]: problem["problem"] for problem in found["dataset"]["problems"]}
    assert ended.code == 2
    assert problems["dataset_info.json"].startswith("SHA-256")
    assert shard.path in problems


def test_pipes_in_place_of_files_are_not_waited_for(
    people: pathlib.Path, tmp_path: pathlib.Path, verify: Verify
):
    dataset, _ = copied(people, tmp_path / "people")
    paths = [path for path in dataset.rglob("*") if path.is_file() and path.parent.name != "origins"]
    replaced = [path for path in paths if path.name not in ("manifest.json", "schema.json")]
    for path in replaced:
        path.unlink()
        os.mkfifo(path)
    ended, found = verify(dataset)
    assert ended.code == 2
    assert {problem["file"] for problem in found["dataset"]["problems"]} == {
        path.relative_to(dataset).as_posix() for path in replaced
    }


def test_an_index_that_tells_something_else_is_named(
    people: pathlib.Path, tmp_path: pathlib.Path, verify: Verify
):
    directory, shard = copied(people, tmp_path / "damaged")
    name = shards.file_name(shard.path)
    stored = shards.load(directory / name)
    offsets = stored.offsets.copy()
    offsets[3] += 1
    (directory / name).write_bytes(shards.dumps(dataclasses.replace(stored, offsets=offsets)))
    ended, found = verify(directory)
    assert ended.code == 2
    [wrong] = [problem for problem in found["dataset"]["problems"] if problem["record"] is not None]
    assert (wrong["file"], wrong["record"], wrong["offset"]) == (name, 3, stored.offsets[3])


def test_a_split_without_shards_has_no_rows(people: pathlib.Path, tmp_path: pathlib.Path, verify: Verify):
    directory = shutil.copytree(people, tmp_path / "people")
    published = manifest_lib.load(directory)
    changed = dataclasses.replace(published, splits={**published.splits, "validation": ()})
    (directory / manifest_lib.FILE_NAME).write_text(manifest_lib.dumps(changed))
    ended, found = verify(directory)
    assert "Traceback" not in ended.err and found


def test_a_directory_without_a_manifest_is_refused(tmp_path: pathlib.Path, run_binary: RunBinary):
    ended = run_binary("beam_jobs.verify", tmp_path)
    assert ended.code == 2
    assert "directory without a manifest" in ended.err


def test_rows_added_removed_and_leaking(
    people: pathlib.Path, published: Callable[..., pathlib.Path], tmp_path: pathlib.Path, verify: Verify
):
    lines = people_csv(400).splitlines(keepends=True)
    changed = b"".join([*lines[:-2], b"999,1.5,Bern,no\n"])
    after = published(changed, name="after", schema=lenient())
    ended, found = verify(after, f"--against={people}", f"--html={tmp_path / 'page.html'}")
    assert ended.code == 0, ended.err
    rows = found["difference"]["rows"]
    assert rows == {"before": 400, "after": 399, "added": 1, "removed": 2, "changed": None}
    assert (found["difference"]["moved"], found["difference"]["leaks"]) == ([], [])
    assert "<h2>Rows</h2>" in (tmp_path / "page.html").read_text()


@pytest.mark.slow
def test_rows_with_an_id_are_changed_or_moved(published: Callable[..., pathlib.Path], verify: Verify):
    by_age = lenient(row_id=("age",))
    before = published(people_csv(400), name="before_ids", schema=by_age)
    after = published(
        people_csv(400).replace(b"Z\xc3\xbcrich,no", b"Bern,no"), name="after_ids", schema=by_age
    )
    _, found = verify(after, f"--against={before}")
    rows = found["difference"]["rows"]
    assert (rows["added"], rows["removed"], rows["changed"]) == (0, 0, 160)
    assert found["difference"]["moved"] == []
    assert [a["feature"] for a in found["difference"]["anomalies"]] == ["city", "city"]
    by_content = published(people_csv(400), name="other_split", schema=lenient(row_id=("age", "city")))
    _, found = verify(by_content, f"--against={before}")
    assert {(m["before"], m["after"]) for m in found["difference"]["moved"]} == {
        ("train", "test"),
        ("test", "train"),
    }
    leaked = sum(leak["records"] for leak in found["difference"]["leaks"])
    assert leaked == next(m["records"] for m in found["difference"]["moved"] if m["before"] == "train")


@pytest.mark.slow
def test_blocks_are_compared_row_by_row(published: Callable[..., pathlib.Path], verify: Verify):
    before = published(people_csv(400), name="blocks_before", schema=lenient(), layout="blocks")
    changed = b"".join(people_csv(400).splitlines(keepends=True)[:-2])
    after = published(changed, name="blocks_after", schema=lenient(), layout="blocks")
    ended, found = verify(after, f"--against={before}")
    assert ended.code == 0, ended.out
    rows = found["difference"]["rows"]
    assert rows == {"before": 400, "after": 398, "added": 0, "removed": 2, "changed": None}
    assert found["difference"]["leaks"] == []
