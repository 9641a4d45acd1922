"""Nothing that a terminal obeys is printed as it is."""

import io

import pytest

from pipeline.base import errors
from pipeline.base.errors import InputError, answer, printable

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
