"""A reader sees whole versions only, and none that is damaged."""

import os
import pathlib

import pytest

from pipeline.base.errors import InputError
from pipeline.publishing import versions
from tests.shared.fixtures.serving import Put


def test_where_nothing_was_published_there_is_no_version(tmp_path):
    assert versions.versions(tmp_path / "nowhere") == []
    assert versions.newest(tmp_path) is None


def test_versions_are_in_the_order_of_their_numbers(serving, put: Put):
    for number in range(1, 12):
        put(f"c{number}")
    assert versions.versions(serving) == [*range(1, 12)]
    assert versions.newest(serving) == 11


def cut(version: pathlib.Path) -> None:
    os.truncate(version / "variables" / "variables.data-00000-of-00001", 17)


def remove(version: pathlib.Path) -> None:
    (version / "saved_model.pb").unlink()


def hang(version: pathlib.Path) -> None:
    (version / "publication.json").unlink()
    os.mkfifo(version / "publication.json")  # nobody ever writes to it


def retell(version: pathlib.Path) -> None:
    path = version / "publication.json"
    path.write_text(path.read_text().replace('"c2"', '"c3"'))


def respace(version: pathlib.Path) -> None:
    path = version / "publication.json"
    path.write_text(path.read_text() + " ")


def renumber(version: pathlib.Path) -> None:
    version.rename(version.with_name("5"))


def lead_out(version: pathlib.Path) -> None:
    (version / "saved_model.pb").unlink()
    (version / "saved_model.pb").symlink_to("/etc/hostname")


def fill_with_a_list(version: pathlib.Path) -> None:
    (version / "publication.json").write_text("[" * 100_000)


@pytest.mark.parametrize("harm", [cut, remove, hang, retell, respace, renumber, lead_out, fill_with_a_list])
def test_a_damaged_version_is_none(serving, put: Put, harm):
    put("c1"), put("c2")
    harm(serving / "2")
    assert versions.versions(serving) == [1]
    for number in versions.numbers(serving)[1:]:
        with pytest.raises(InputError):
            versions.check(serving, number)


def test_a_bit_that_no_size_tells_is_found_by_reading(serving, put: Put):
    put("c1")
    path = serving / "1" / "variables" / "variables.data-00000-of-00001"
    path.write_bytes(path.read_bytes().replace(b"w", b"v", 1))
    assert versions.versions(serving) == [1]
    with pytest.raises(InputError, match=r"variables\.data.*as published"):
        versions.check(serving, 1)


def test_what_tensorflow_serving_passes_over_is_no_version(serving):
    for name in (".staging-7", "7.tmp", "v7", "9" * 19, "9" * 200, "٧"):
        (serving / name).mkdir(parents=True)
    assert versions.numbers(serving) == []
