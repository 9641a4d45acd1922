"""A read that fails is tried again, with waits that grow; where another try gives the same, it is not."""

import errno

import pytest

from pipeline.base import files
from pipeline.base.files import RETRY_WAITS_S, retry, unreadable

ALWAYS = errno.ENOENT, errno.EACCES, errno.EISDIR


def failing(times: int, number: int):
    """A read that fails so often, with this error, and then gives 7; and the waits between the tries."""
    left, waits = [times], []

    def read() -> int:
        if left[0]:
            left[0] -= 1
            raise OSError(number, "no luck")
        return 7

    return read, waits


@pytest.mark.parametrize("times", [0, 1, len(RETRY_WAITS_S)])
def test_a_read_is_tried_again(times: int):
    read, waits = failing(times, errno.EIO)
    assert retry(read, wait=waits.append) == 7
    assert waits == list(files.RETRY_WAITS_S[:times])


def test_the_last_try_raises():
    read, waits = failing(len(RETRY_WAITS_S) + 1, errno.EIO)
    with pytest.raises(OSError, match="no luck"):
        retry(read, wait=waits.append)
    assert waits == list(files.RETRY_WAITS_S)


@pytest.mark.parametrize("number", (*ALWAYS, errno.ELOOP, errno.EINVAL, errno.ENAMETOOLONG))
def test_what_stays_as_it_is_is_not_tried_again(number: int):
    read, waits = failing(1, number)
    with pytest.raises(OSError, match="no luck"):
        retry(read, wait=waits.append)
    assert waits == []


def test_of_several_the_one_that_fails_is_tried_again_alone():
    read, left = [], [2]

    def all_of(items: list[int]) -> int:
        read.append(list(items))
        if 3 in items and left[0]:
            left[0] -= 1
            raise OSError(errno.EIO, "no luck", "3")
        return sum(items)

    assert files.one_by_one(all_of, [1, 3]) == [1, 3]
    assert read == [[1, 3], [1], [3], [3]]
    assert files.one_by_one(all_of, [1, 3]) == [4]


def test_the_error_names_the_file():
    assert "dataset file /d/x: received no luck, after 6 tries" in str(
        unreadable("/d/x", OSError(errno.EIO, "no luck"))
    )
