"""A file is read once while it stays as it is."""

import hashlib
import os
import time

import pytest

from pipeline.retraining.spans import Digests


def digests(tmp_path, *, later=10):
    """As if it were some seconds later: the files have settled."""
    return Digests(tmp_path / "cache" / "digests.json", clock=lambda: time.time_ns() + later * 10**9)


def test_digests_are_those_of_hashlib(tmp_path):
    (tmp_path / "a").write_bytes(b"abc" * 10**6)
    expected = hashlib.sha256(b"abc" * 10**6).hexdigest()
    assert digests(tmp_path).of(str(tmp_path / "a")) == expected


def test_an_unchanged_file_is_not_read_again(tmp_path):
    file = tmp_path / "a"
    file.write_text("1")
    first = digests(tmp_path)
    known = first.of(str(file))
    first.save()
    read = []
    again = digests(tmp_path)
    again._known[str(file)][-1] = "told by the cache"
    read.append(again.of(str(file)))
    assert read == ["told by the cache"]
    assert known != read[0]


def test_a_file_that_may_still_change_unseen_is_not_kept(tmp_path):
    (tmp_path / "a").write_text("1")
    cache = digests(tmp_path, later=0)
    cache.of(str(tmp_path / "a"))
    cache.save()
    assert not (tmp_path / "cache").exists()


def test_a_damaged_cache_only_costs_time(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "digests.json").write_text("[1")
    (tmp_path / "a").write_text("1")
    assert len(digests(tmp_path).of(str(tmp_path / "a"))) == 64


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not an ordinary file"):
        digests(tmp_path).of(str(tmp_path / "pipe"))


def test_a_cache_in_which_a_digest_was_changed_is_not_believed(tmp_path):
    file, cache = tmp_path / "a.csv", tmp_path / "cache.json"
    file.write_text("1\n")
    long_after = time.time_ns() + 10**12
    digests = Digests(cache, clock=lambda: long_after)
    right = digests.of(str(file))
    digests.save()
    assert right in cache.read_text()
    cache.write_text(cache.read_text().replace(right, "0" * 64))
    assert Digests(cache).of(str(file)) == right


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(tmp_path):
    (tmp_path / "a.csv").write_text("1\n")
    (tmp_path / "cache").write_text("a file, where a folder is expected")
    long_after = time.time_ns() + 10**12
    digests = Digests(tmp_path / "cache" / "raw.json", clock=lambda: long_after)
    digests.of(str(tmp_path / "a.csv"))
    digests.save()
