"""Pictures of the tutorial: what its commands print, and the pages that they write.

  python -m tests.house.docs.pictures

runs the tutorial in a copy of the tree, and stores in docs/pictures what its page shows. NAME.svg has the
commands of the block above it and what they printed. NAME-light.png and NAME-dark.png are the page that PAGES
names; these need chromium.
"""

import collections
import dataclasses
import html
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

import PIL.Image

from tests.house.docs import commands, documents
from tests.house.docs.documents import Block

PAGE = "docs/tutorial/index.md"
FOLDER = documents.ROOT / "docs/pictures"
PAGES = {"report": "build/run/report.html"}  # by the picture's name; written by the tutorial
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MOST_BYTES = 120_000  # of a picture
_SCHEMES = {"light": 1, "dark": 0}  # as chromium's blink calls them
_WIDTH, _HEIGHT = 1000, 1450  # of a page, in pixels
_COLOURS = 64

# A terminal: characters and lines. What is longer is cut, as the middle of what has more lines.
_COLUMNS, _FIRST, _LAST = 140, 12, 15
_CHARACTER, _LINE, _MARGIN = 7.83, 18, 14  # in pixels, at 13 pixels a font
_FONTS = "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace"
_GREEN, _GREY = "#7fd1b9", "#d5dde3"
_OF_TENSORFLOW = re.compile(r"[EIW]\d{4} |WARNING: All log messages before absl")  # said whatever one runs
_SHOWN = re.compile(r"!\[[^\]]*\]\(\.\./pictures/(\w+)\.svg\)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shown:
    """A block whose output stands in the page as a picture."""

    name: str  # of the picture
    block: Block


def shown() -> tuple[Shown, ...]:
    """The pictures of terminals in the tutorial, in its order."""
    lines = documents.read(PAGE).splitlines()
    found = [(number, name) for number, line in enumerate(lines, 1) for name in _SHOWN.findall(line)]
    blocks = [block for block in documents.blocks(PAGE) if block.is_run]
    return tuple(
        Shown(name=name, block=[block for block in blocks if block.line < number][-1])
        for number, name in found
    )


def terminal(command: str, printed: str) -> str:
    """An SVG of a terminal. It suits a light page and a dark one.

    Args:
      printed: by a shell that prints each line of `command` before it runs it.
    """
    lines = _cut([line for line in _with_prompts(command, printed) if not _OF_TENSORFLOW.match(line)])
    width = round(2 * _MARGIN + _CHARACTER * max(map(len, lines)))
    height = 2 * _MARGIN + _LINE * len(lines)
    of_command = set(map(prompted, command.splitlines()))
    rows = "\n".join(
        _row(number, line, colour=_GREEN if line in of_command else _GREY)
        for number, line in enumerate(lines)
    )
    return f'''<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">
<rect width="100%" height="100%" rx="8" fill="#1b2329"/>
<g font-family="{_FONTS}" font-size="13">
{rows}
</g></svg>
'''


def _with_prompts(command: str, printed: str) -> Iterator[str]:
    """What was printed; the lines of the command, which come in their order, have a prompt."""
    left = collections.deque(command.splitlines())
    for line in printed.splitlines():
        if left and line == left[0]:
            yield prompted(left.popleft())
        else:
            yield line


def prompted(line: str) -> str:
    """A line of a command with its prompt; an indented one goes on with the line before."""
    return line if line.startswith(" ") else f"$ {line}"


def _cut(lines: Sequence[str]) -> list[str]:
    some = lines if len(lines) <= _FIRST + _LAST else [*lines[:_FIRST], "…", *lines[-_LAST:]]
    return [line if len(line) <= _COLUMNS else f"{line[: _COLUMNS - 1]}…" for line in some]


def _row(number: int, line: str, *, colour: str) -> str:
    y = _MARGIN + _LINE * number + 13
    return f'<text x="{_MARGIN}" y="{y}" xml:space="preserve" fill="{colour}">{html.escape(line)}</text>'


def browser() -> str:
    """Raises SystemExit where none is installed."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not found:
        raise SystemExit(f"error: pictures of pages: found none of {', '.join(BROWSERS)}; install chromium")
    return found


def photograph(page: pathlib.Path, output: pathlib.Path, *, scheme: str, program: str) -> None:
    """Writes the top of a page as a PNG of few colours."""
    flags = ("--headless=new", "--no-sandbox", "--hide-scrollbars", f"--window-size={_WIDTH},{_HEIGHT}")
    colours = f"--blink-settings=preferredColorScheme={_SCHEMES[scheme]}"
    subprocess.run(
        [program, *flags, colours, f"--screenshot={output}", page.as_uri()], check=True, capture_output=True
    )
    with PIL.Image.open(output) as picture:
        few = picture.convert("RGB").quantize(_COLOURS, dither=PIL.Image.Dither.NONE)
    few.save(output, optimize=True)


def main() -> None:
    program = browser()
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        commands.copy_tree(directory)
        for path in _taken(directory, program=program):
            print(f"{path.relative_to(documents.ROOT)}  {path.stat().st_size / 1000:.0f} kB", flush=True)


def _taken(directory: pathlib.Path, *, program: str) -> Iterator[pathlib.Path]:
    """Runs the tutorial in `directory`, and writes each picture as soon as it can be."""
    FOLDER.mkdir(exist_ok=True)
    names = {each.block: each.name for each in shown()}
    for block in documents.blocks(PAGE):
        if block.is_run:
            printed = _printed(block, directory)
            if block in names:
                path = FOLDER / f"{names[block]}.svg"
                path.write_text(terminal(block.text, printed))
                yield path
    for picture, page in PAGES.items():
        for scheme in _SCHEMES:
            path = FOLDER / f"{picture}-{scheme}.png"
            photograph(directory / page, path, scheme=scheme, program=program)
            yield path


def _printed(block: Block, directory: pathlib.Path) -> str:
    """What a block prints, each of its lines before it is run; without the name of the copy's folder."""
    if block.language in documents.SHELL:
        (directory / "block.sh").write_text(block.text)
        block = dataclasses.replace(block, text="bash -euvo pipefail block.sh")
    result = commands.run(block, directory, pathlib.Path(sys.executable))
    if result.returncode:
        raise SystemExit(f"error: {block.where}: exit code {result.returncode}\n{result.stdout}")
    return result.stdout.replace(str(directory), "penstock")


if __name__ == "__main__":
    main()
