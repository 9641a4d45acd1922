"""The one line that is said of bad input: short, printable, and with the nearest name."""

import io
import pickle

import pytest

from pipeline.base import errors
from pipeline.base.errors import InputError, TryAgainError, answer, did_you_mean, nearest, printable


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


# What the machine lacks is told from what is wrong with the input.


def raised_from(error: Exception) -> InputError:
    try:
        try:
            raise error
        except Exception:
            raise error_of(3) from None
    except InputError as found:
        return found


@pytest.mark.parametrize(
    ("error", "lacks"),
    [
        (MemoryError(), "too little memory (MemoryError)"),
        (OSError(12, "Cannot allocate memory"), "too little memory (Cannot allocate memory)"),
        (RuntimeError("can't start new thread"), "too little memory (can't start new thread)"),
        (ImportError("_rust.so: failed to map segment"), "too little memory (failed to map segment)"),
        (RuntimeError("malloc of size 4096 failed"), "too little memory (malloc of size 4096 failed)"),
        (OSError(24, "Too many open files", "a"), "too many open files (Too many open files: a)"),
        (raised_from(OSError(5, "Input/output error")), "a disk that does not answer (Input/output error)"),
        (raised_from(MemoryError()), "too little memory (MemoryError)"),
        (raised_from(ValueError("a cell")), ""),
        (InputError("MemoryError", received="Errno 12", expected="a", action="b"), ""),  # of a table of logs
        (FileNotFoundError(2, "No such file or directory"), ""),
        (PermissionError(13, "Permission denied"), ""),
        # A damaged file asks for what no machine has.
        (MemoryError("Unable to allocate 9.00 PiB for an array"), ""),
        (RuntimeError("malloc of size 9007199254740992 failed"), ""),
    ],
)
def test_what_the_machine_lacks(error: Exception, lacks: str):
    assert errors.shortage(error) == lacks


def test_a_permission_is_lacking_only_where_the_command_is_repeated():
    denied = raised_from(PermissionError(13, "Permission denied", "log"))
    assert errors.shortage(denied, is_repeated=True) == "a path that it may not use (Permission denied: log)"
    with pytest.raises(InputError) as same, errors.naming_shortages("reconcile"):
        raise denied
    assert same.value is denied
    with (
        pytest.raises(TryAgainError, match="www: received a path"),
        errors.naming_shortages("w", is_repeated=True),
    ):
        raise denied


# Nothing that a terminal obeys is printed as it is.
RED, CLEAR, REVERSED = "\x1b[31m", "\x1b[2J", "\u202e"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Zürich – 東京 ×", "Zürich – 東京 ×"),
        (f"{RED}red", r"\x1b[31mred"),
        ("two\nlines\r", r"two\nlines\r"),
        (f"a{REVERSED}b", r"a\u202eb"),
        ("\x9b2J", r"\x9b2J"),  # ESC [ in one character
        ("half \udc80", r"half \udc80"),
    ],
)
def test_what_is_shown(text: str, shown: str):
    assert printable(text) == shown


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]):
    assert answer(InputError(f"column '{CLEAR}\n'", received="a", expected="b", action="C.")) == 2
    assert capsys.readouterr().err == "error: column '\\x1b[2J\\n': received a; expected b. C.\n"


def test_all_that_is_printed_passes_through(capsys: pytest.CaptureFixture[str]):
    with errors.printable_output():
        print(f"a table\tof {RED}")
    assert capsys.readouterr().out == "a table\tof \\x1b[31m\n"


def test_a_terminal_of_another_encoding_gets_what_it_can_show(monkeypatch: pytest.MonkeyPatch):
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr("sys.stdout", terminal)
    with errors.printable_output():
        print("Zürich …", flush=True)
    assert terminal.buffer.getvalue() == b"Z\xfcrich \\u2026\n"


# The nearest name is that which a person meant.
FLAGS = (
    *("dataset", "workdir", "config.global_batch", "config.image_size", "config.evaluation.global_batch"),
    *("config.optimizer.learning_rate", "config.train.epochs"),
)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("datset", "dataset"),
        ("batch_size", "config.global_batch"),
        ("lr", "config.optimizer.learning_rate"),
        ("learning_rate", "config.optimizer.learning_rate"),
        ("epochs", "config.train.epochs"),
        ("config.trian.epochs", "config.train.epochs"),
        ("verbosity", None),
    ],
)
def test_flags(given: str, meant: str | None):
    assert nearest(given, FLAGS) == meant


@pytest.mark.parametrize(
    ("given", "meant"), [("vaildation", "validation"), ("val", "validation"), ("Test", "test"), ("x", None)]
)
def test_splits(given: str, meant: str | None):
    assert nearest(given, ("train", "validation", "test")) == meant


def test_without_names_none_is_near():
    assert nearest("any", ()) is None


def test_an_error_says_what_to_do_otherwise():
    assert did_you_mean("tset", ["test"], otherwise="Name a split.") == "Did you mean 'test'?"
    assert did_you_mean("x", ["test"], otherwise="Name a split.") == "Name a split."
