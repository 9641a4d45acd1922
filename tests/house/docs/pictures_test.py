"""The tutorial's pictures are there, small, and of the commands that stand in it."""

import re
import xml.etree.ElementTree as ET

import pytest

from tests.house.docs import documents, pictures

SHOWN = pictures.shown()
_OF_A_PAGE = re.compile(r'(?:src|srcset)="([^"]+)"')
HINT = "make pictures-of-docs takes them anew"


def lines_of(name: str) -> list[str]:
    """The lines of a picture of a terminal."""
    tree = ET.parse(pictures.FOLDER / f"{name}.svg")
    return [each.text or "" for each in tree.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("shown", SHOWN, ids=[each.name for each in SHOWN])
def test_a_picture_is_of_the_commands_above_it(shown):
    commands = [pictures.prompted(line) for line in shown.block.text.splitlines()]
    in_picture = [line for line in lines_of(shown.name) if line in commands]
    assert in_picture == commands, HINT


def test_the_pictures_are_those_that_pages_show():
    pages = {f"{page}-{scheme}.png" for page in pictures.PAGES for scheme in ("light", "dark")}
    stored = {path.name for path in pictures.FOLDER.iterdir()}
    assert stored == pages | {f"{each.name}.svg" for each in SHOWN}, HINT


def test_pictures_of_pages_are_there():
    named = {
        (documents.ROOT / name).parent / target
        for name in documents.names()
        for target in _OF_A_PAGE.findall(documents.prose(name))
    }
    assert len({path.resolve() for path in named}) == 2 * len(pictures.PAGES)
    assert not (missing := [path for path in named if not path.exists()]), missing


def test_pictures_are_small():
    sizes = {path.name: path.stat().st_size for path in pictures.FOLDER.iterdir()}
    assert not (large := {name: size for name, size in sizes.items() if size > pictures.MOST_BYTES}), large


def test_a_terminal_has_prompts_and_what_was_printed():
    command = "echo 'a' |\n  cat\necho '<b>'"
    printed = f"echo 'a' |\n  cat\na\nE0000 00:00 cuInit\necho '<b>'\n<b>\n{'x' * 200}"
    texts = [each.text for each in ET.fromstring(pictures.terminal(command, printed)).iter() if each.text]
    lines = [text for text in texts if text.strip()]
    assert lines == ["$ echo 'a' |", "  cat", "a", "$ echo '<b>'", "<b>", f"{'x' * 139}…"]


def test_the_middle_of_many_lines_is_left_out():
    svg = pictures.terminal("seq 40", "seq 40\n" + "\n".join(map(str, range(1, 41))))
    lines = [each.text for each in ET.fromstring(svg).iter() if each.text and each.text.strip()]
    assert lines == ["$ seq 40", *map(str, range(1, 12)), "…", *map(str, range(26, 41))]


def test_without_a_browser_one_line_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="found none of chromium, chromium-browser, google-chrome; install"):
        pictures.browser()
