"""The one progress bar, where somebody watches and in a log."""

import sys

import pytest

from pipeline.base.errors import printable_output
from pipeline.base.progress import Bar
from tests.shared import terminal


def test_a_log_gets_a_line_every_30_seconds(capsys: pytest.CaptureFixture[str]):
    seconds = iter(range(0, 1_000, 10))
    with Bar(total=8, desc="converting", unit=" rows", delay=0, clock=lambda: next(seconds)) as bar:
        for _ in range(8):
            bar.update()
            bar.refresh()
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert not out
    assert len(lines) in (2, 3)  # a line asks the clock twice
    assert all(line.startswith("converting: ") and "/8 [" in line for line in lines)
    assert "\r" not in err


def test_a_log_of_what_is_short_has_none(capsys: pytest.CaptureFixture[str]):
    assert list(Bar([1, 2], desc="checking", unit="shard")) == [1, 2]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_keeps_no_bar_that_has_ended(columns: int, monkeypatch: pytest.MonkeyPatch):
    with terminal.opened(columns=columns) as (device, screen), open(device, "w", closefd=False) as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        with printable_output():
            for _ in Bar(range(3), desc="checking", unit="shard", delay=0):
                pass
            print("done", file=sys.stderr)
    seen = screen()
    assert (seen.lines, seen.obeyed) == (["done"], [])
    assert any(frame.startswith("checking:") and "/3 [" in frame for frame in seen.frames)
