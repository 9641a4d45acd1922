"""Spans of raw data, and what they are known by."""

import datetime
import hashlib
import os
import re
import signal
import time

import pytest

from pipeline.base.errors import InputError, TryAgainError
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Tokens
from pipeline.data.schema.schema import Schema
from pipeline.retraining import datasets, reconcile, records, spans
from pipeline.retraining.records import Root
from pipeline.retraining.spans import Digests
from pipeline.training.launch import child
from tests.shared import small_spans
from tests.unit.retraining.settings_test import parsed

# Spans of raw data: their names, and digests that tell what changed.


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def find(root, pattern, **more):
    return spans.find(str(root / pattern), Digests(root / "cache.json"), **more)


@pytest.mark.parametrize(
    ("pattern", "file", "name"),
    [
        ("raw/date=*", "raw/date=2026-11-01/a.csv", "2026-11-01"),
        ("raw/*.csv", "raw/2026-11-01.csv", "2026-11-01"),
        ("raw/*.csv.gz", "raw/2026-11-01.csv.gz", "2026-11-01"),
        ("raw/year=*/month=*", "raw/year=2026/month=11/a.csv", "2026_11"),
        ("raw/day one", "raw/day one/a.csv", "day one"),
        ("raw/**/date=*", "raw/x/y/date=1/a.csv", "1"),
        ("raw/date=*", "raw/date=ünï cödé/a.csv", "ünï cödé"),
        ("raw/date=*", "raw/date=/a.csv", "date="),
    ],
)
def test_a_span_is_called_what_the_wildcards_match(tmp_path, pattern, file, name):
    write(tmp_path, {file: "1\n"})
    assert [span.name for span in find(tmp_path, pattern)] == [name]


def test_spans_are_ordered_by_name(tmp_path):
    write(tmp_path, {f"raw/date={day}/a.csv": day for day in ("2026-11-10", "2026-11-02", "2026-10-31")})
    assert [span.name for span in find(tmp_path, "raw/date=*")] == ["2026-10-31", "2026-11-02", "2026-11-10"]


def test_two_matches_of_one_name_are_refused(tmp_path):
    write(tmp_path, {"raw/1.csv": "", "raw/1.tsv": ""})
    with pytest.raises(InputError, match="both span '1'"):
        find(tmp_path, "raw/*")


def test_the_digest_tells_contents_and_names(tmp_path):
    write(tmp_path, {"raw/date=1/a.csv": "1\n", "raw/date=2/b.csv": "1\n", "raw/date=3/a.csv": "2\n"})
    one, renamed, other = find(tmp_path, "raw/date=*")
    assert len({one.digest, renamed.digest, other.digest}) == 3
    assert one.content == renamed.content != other.content


def test_a_file_that_is_rewritten_in_the_same_size_and_time_has_another_digest(tmp_path):
    write(tmp_path, {"raw/date=1/a.csv": "1\n"})
    path = tmp_path / "raw/date=1/a.csv"
    os.utime(path, ns=(10**18, 10**18))
    (before,) = find(tmp_path, "raw/date=*")
    path.write_text("2\n")
    os.utime(path, ns=(10**18, 10**18))
    (after,) = find(tmp_path, "raw/date=*")
    assert before.digest != after.digest


def test_a_folder_without_its_marker_is_no_span_yet(tmp_path):
    write(tmp_path, {"raw/date=1/a.csv": "1\n", "raw/date=2/a.csv": "1\n", "raw/date=2/_SUCCESS": ""})
    assert [span.name for span in find(tmp_path, "raw/date=*", marker="_SUCCESS")] == ["2"]


def test_a_name_that_is_no_text_has_a_digest(tmp_path):
    write(tmp_path, {"raw/date=1/" + os.fsdecode(b"\xff.csv"): "1\n"})
    (span,) = find(tmp_path, "raw/date=*")
    assert span.files == 1


@pytest.mark.parametrize("name", ["..", "."])
def test_a_name_that_is_no_folder_of_its_own_is_refused(tmp_path, name):
    write(tmp_path, {f"raw/date={name}/a.csv": "1\n"})
    with pytest.raises(InputError, match=rf"span '{name}'.*Rename it"):
        find(tmp_path, "raw/date=*")


def test_a_span_of_links_in_a_circle_is_refused_and_not_walked_for_ages(tmp_path):
    write(tmp_path, {"raw/date=1/a.csv": "1\n"})
    for name in ("one", "other"):
        (tmp_path / "raw/date=1" / name).symlink_to(".")
    with pytest.raises(InputError, match=r"span '1': received .*symbolic links"):
        find(tmp_path, "raw/date=*")


def test_links_in_a_circle_through_another_folder_are_refused(tmp_path):
    write(tmp_path, {"raw/date=1/a.csv": "1\n", "elsewhere/b.csv": "2\n"})
    for name in ("one", "other"):
        (tmp_path / "raw/date=1" / name).symlink_to("../../elsewhere")
        (tmp_path / "elsewhere" / name).symlink_to("../raw/date=1")
    with pytest.raises(InputError, match=r"span '1': received .*symbolic links"):
        find(tmp_path, "raw/date=*")


def test_a_link_to_a_folder_beside_it_is_followed(tmp_path):
    write(tmp_path, {"elsewhere/a.csv": "1\n", "raw/date=1/b.csv": "2\n"})
    (tmp_path / "raw/date=1/linked").symlink_to(tmp_path / "elsewhere")
    (span,) = find(tmp_path, "raw/date=*")
    assert span.files == 2


# Of equal spans one is used: the first that can be.


def twins(root, *names):
    """Spans of the same bytes below a root."""
    write(root, {"schema.json": "{}", **{f"raw/date={name}/a.csv": "1\n" for name in names}})
    return Root(path=root, name="taxi")


def left_out(root, **more):
    sources = parsed(**{f"spans__{key}": value for key, value in more.items()}).sources(root)
    return {span.name: span.unusable for span in datasets.survey_spans(root, sources) if span.unusable}


def give_result(root, name, unusable=""):
    sources = parsed().sources(root)
    span = next(span for span in datasets.survey_spans(root, sources) if span.name == name)
    path = datasets.result_path(root, *span.key)
    path.parent.mkdir(parents=True)
    rows = {"train": 0 if unusable else 1}
    records.write_result(
        path, {"unusable": unusable, "rows": rows, "dataset_digest": "" if unusable else "d", "fault": "rows"}
    )


def test_the_first_of_equal_spans_is_used(tmp_path):
    assert left_out(twins(tmp_path, "1", "2", "3")) == {
        "2": "it repeats span 1, byte for byte",
        "3": "it repeats span 1, byte for byte",
    }


def test_an_excluded_span_does_not_hide_the_same_rows_under_the_right_name(tmp_path):
    assert left_out(twins(tmp_path, "1", "2"), exclude=("1",)) == {"1": "config.spans.exclude names it"}


def test_an_unusable_span_does_not_hide_the_same_rows_under_the_right_name(tmp_path):
    root = twins(tmp_path, "1", "2")
    give_result(root, "1", unusable="it cannot be read")
    assert left_out(root) == {"1": "it cannot be read"}


def test_a_late_copy_under_an_earlier_name_does_not_hide_what_was_used(tmp_path):
    root = twins(tmp_path, "2")
    give_result(root, "2")
    assert left_out(twins(tmp_path, "1", "2")) == {"1": "it repeats span 2, byte for byte"}


def test_a_span_that_turns_out_unusable_gives_way_in_the_same_call(tmp_path, monkeypatch, capsys):
    root = twins(tmp_path, "1", "2")

    def convert(root, span, conversion, *, at):
        give_result(root, span.name, unusable="it cannot be read" if span.name == "1" else "")
        return records.read_result(datasets.result_path(root, span.name, conversion.fingerprint(span)))

    monkeypatch.setattr(datasets, "convert", convert)
    settings = parsed(holdout__kind="split")
    spans_of_window = reconcile.convert_needed(root, settings, clock=lambda: None)
    assert [span.name for span in spans_of_window if not span.unusable] == ["2"]
    assert capsys.readouterr().out.splitlines() == [
        "span 1: left out, it cannot be read",
        "span 2: 1 rows",
    ]
    with pytest.raises(InputError, match="span '1': received it cannot be read"):
        reconcile.convert_needed(
            root, parsed(holdout__kind="split", spans__unusable="stop"), clock=lambda: None
        )


# A file is read once while it stays as it is.


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


# Only what is wrong with rows is written down about a span.

AT = datetime.datetime(2026, 11, 4, tzinfo=datetime.UTC)
ROWS = "rows that cannot be converted: received 5 of 9 rows; expected at most none. Correct the data."
# A table of logs may quote what an error says.
QUOTES = "column 'a': received 'open: Permission denied'; expected a number. Correct it. MemoryError"
OUTPUT = "--output=a: received Permission denied; expected a directory that can be created. Choose another."
FLAG = "--layuot: received a flag that this command does not have; expected another. See --help."


@pytest.fixture
def converting(tmp_path, monkeypatch):
    """A function that converts a span by a command that ends with this line and exit code."""
    write(tmp_path, {"raw/date=1/a.csv": "a\n1\n"})
    small_spans.write_schema(tmp_path)
    root = Root(path=tmp_path, name="trips")
    conversion = datasets.Conversion(module="convert", schema=tmp_path / "schema.json", flags=())
    (span,) = find(tmp_path, "raw/date=*")

    def convert(line, code):
        def run(command, *, log, came):
            log.write_text(f"error: {line}\n" if line else "")
            return code

        monkeypatch.setattr(child, "run", run)
        return datasets.convert(root, span, conversion, at=AT)

    convert.path = datasets.result_path(root, "1", conversion.fingerprint(span))
    convert.sources = datasets.Sources(pattern=str(tmp_path / "raw/date=*"), conversion=conversion)
    convert.root = root
    return convert


@pytest.mark.parametrize("line", [ROWS, QUOTES])
def test_a_span_whose_rows_are_refused_is_not_tried_again(converting, line):
    first = converting(line, 2)
    assert first["unusable"] == line
    assert converting("", -9) == first
    (span,) = datasets.survey_spans(converting.root, converting.sources)
    assert span.unusable == line


@pytest.mark.parametrize(
    ("line", "code", "kind"),
    [
        ("memory: received a limit; expected more. Raise it.", 75, TryAgainError),
        ("", -signal.SIGKILL, TryAgainError),
        ("", -signal.SIGABRT, TryAgainError),
        ("", 128 + signal.SIGTERM, TryAgainError),
        (OUTPUT, 2, TryAgainError),
        ("a: received a disk that is full, or a quota; expected room. Make room.", 2, TryAgainError),
        (FLAG, 2, InputError),
        ("the run: received KeyError: 'a'; expected workers that end their work. Report it.", 1, InputError),
        ("", 1, InputError),
    ],
)
def test_what_is_no_fault_of_its_rows_says_nothing_about_a_span(converting, line, code, kind):
    with pytest.raises(InputError) as raised:
        converting(line, code)
    assert isinstance(raised.value, TryAgainError) == (kind is TryAgainError)
    assert not converting.path.exists()
    (span,) = datasets.survey_spans(converting.root, converting.sources)
    assert (span.unusable, span.result) == ("", None)


def test_where_the_flags_of_tokens_are_missing_the_config_is_at_fault_and_no_span(converting):
    tokens = Tokens(name="tokens", length=64, vocabulary_size=259, tokenizer="bytes")
    schema_lib.save(Schema(name="texts", features=(tokens,)), converting.root.path / "schema.json")
    line = "input a.txt: received column 'text'; expected tokens. Give the flags: --tokenizer=bytes."
    flags = re.escape("Set config.spans.convert = ('--tokenizer=bytes', '--sequence_length=64').")
    with pytest.raises(InputError, match=flags):
        converting(line, 2)
    (span,) = datasets.survey_spans(converting.root, converting.sources)
    assert (span.unusable, span.result) == ("", None)


def test_a_schema_that_cannot_be_read_says_nothing_about_a_span(converting):
    (converting.root.path / "schema.json").write_text("{}")
    with pytest.raises(InputError, match="schema"):
        converting(ROWS, 2)
    assert not list((converting.root.path / "spans").glob("*/*"))


def test_a_refusal_that_does_not_say_that_rows_are_at_fault_is_looked_at_again(converting):
    written = converting(ROWS, 2)
    assert written.pop("fault") == "rows"
    converting.path.unlink()
    records.write_result(converting.path, {**written, "unusable": "the run: received MemoryError"})
    (span,) = datasets.survey_spans(converting.root, converting.sources)
    assert (span.unusable, span.result) == ("", None)
    assert converting(ROWS, 2)["unusable"] == ROWS


def test_a_file_that_cannot_be_read_now_may_be_later(tmp_path, monkeypatch):
    write(tmp_path, {"raw/date=1/a.csv": "1\n"})

    def denied(self, file):
        raise PermissionError(13, "Permission denied", file)

    monkeypatch.setattr(Digests, "of", denied)
    with pytest.raises(TryAgainError, match=r"span '1': received .*a\.csv: Permission denied"):
        find(tmp_path, "raw/date=*")
