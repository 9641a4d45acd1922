"""One process at a time retrains in a root."""

import pytest

from pipeline.base.errors import InputError, TryAgainError
from pipeline.retraining import records


def test_who_comes_second_is_told_to_try_again(tmp_path):
    second = records.open_root(tmp_path, name="taxi")
    with records.open_root(tmp_path, name="taxi"), pytest.raises(TryAgainError, match="--root="):
        second.__enter__()
    with records.open_root(tmp_path, name="taxi") as opened:
        assert opened.serving == tmp_path / "serving" / "taxi"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b"])
def test_a_name_that_is_no_folder_is_refused(tmp_path, name):
    with pytest.raises(InputError, match=r"config\.name"):
        records.existing_root(tmp_path, name=name)


def test_a_root_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        records.existing_root(tmp_path / "gone", name="taxi")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="a file"):
        records.existing_root(tmp_path / "file", name="taxi")
