"""Bytes of files: what does not decompress is named, and ranges and batches end where they should."""

import bz2
import gzip
import lzma
import pathlib

import pyarrow as pa
import pytest

from beam_jobs.sources import lines
from beam_jobs.sources.byte_streams import ByteStream, in_batches
from beam_jobs.sources.source import InputSplit
from pipeline.base.errors import InputError

TEXT = b"".join(b"%d,%d\n" % (number, number**3) for number in range(5000))


def test_a_range_is_read_and_no_more(tmp_path: pathlib.Path):
    (tmp_path / "a.csv").write_bytes(b"0123456789")
    with ByteStream(str(tmp_path / "a.csv"), start=2, end=7) as stream:
        assert [stream.read(3), stream.read(3), stream.read(3)] == [b"234", b"56", b""]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv.gz", gzip.compress(TEXT)[:-100]),
        ("a.csv.bz2", bz2.compress(TEXT)[:-100]),
        ("a.csv.zst", pa.compress(TEXT, codec="zstd", asbytes=True)[:-100]),
        *((f"a.csv.{ending}", TEXT) for ending in ("gz", "bz2", "zst")),
        *(("a.csv", compress(TEXT)) for compress in (gzip.compress, bz2.compress)),
    ],
)
def test_a_file_that_is_cut_short_or_misnamed_is_named(tmp_path: pathlib.Path, name: str, content: bytes):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=name), ByteStream(str(tmp_path / name)) as stream:
        while stream.read(1 << 20):
            pass


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04" + bytes(99), "a ZIP archive or a spreadsheet; expected text. Unpack it, or save"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "a pointer of Git LFS.*git lfs pull"),
        (b"a.csv".ljust(257, b"\0") + b"ustar", "a tar archive.*Unpack it"),
        (lzma.compress(TEXT), "xz.*Unpack it with xz -d"),
        (b"PAR1" + bytes(99), "a Parquet file; expected text. Give --format=parquet"),
    ],
)
def test_a_file_of_another_kind_is_called_so(tmp_path: pathlib.Path, content: bytes, message: str):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError, match=message), ByteStream(str(tmp_path / "a.csv")) as stream:
        stream.read(1 << 20)


def test_an_ending_may_be_written_in_capitals(tmp_path: pathlib.Path):
    (tmp_path / "A.CSV.GZ").write_bytes(gzip.compress(TEXT))
    with ByteStream(str(tmp_path / "A.CSV.GZ")) as stream:
        assert stream.read(len(TEXT)) == TEXT


def test_a_line_without_end_is_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lines, "_ROW_BYTES", 2 << 20)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"x" * (4 << 20))
    with pytest.raises(InputError, match="a line of more than 2 MiB"):
        list(lines.read(InputSplit(paths=(str(path),), root="", bytes=1)))


MIB = 1 << 20


def test_a_batch_ends_after_so_many_rows():
    assert list(in_batches("abcde", at_most=2, size=len)) == [["a", "b"], ["c", "d"], ["e"]]


def test_large_rows_end_a_batch_before():
    rows = [1 * MIB, 31 * MIB, 50 * MIB, 1, 2]
    assert list(in_batches(rows, at_most=4, size=int)) == [rows[:2], rows[2:3], rows[3:]]
