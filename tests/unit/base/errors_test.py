"""The one line that is said of bad input."""

import pickle

from pipeline.base.errors import InputError, TryAgainError


def error_of(length: int) -> InputError:
    text = "w" * length
    return InputError(text, received=text, expected=text, action="Correct it.")


def test_megabytes_are_shortened_and_what_a_person_reads_is_not():
    assert str(error_of(900)).count("w") == 2700
    assert len(str(error_of(1_000_000))) < 3200
    assert "w… (1,000,000 characters); expected w" in str(error_of(1_000_000))


def test_it_is_the_same_when_it_comes_from_a_worker():
    for length in (3, 5_000):
        assert str(pickle.loads(pickle.dumps(error_of(length)))) == str(error_of(length))


def test_what_may_succeed_later_says_so_by_its_exit_code_from_a_worker_too():
    error = TryAgainError("lock", received="a holder", expected="nobody", action="Wait.")
    assert pickle.loads(pickle.dumps(error)).exit_code == 75
