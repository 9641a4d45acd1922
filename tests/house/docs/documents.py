"""The documents, and what stands in them: fenced blocks, links, names of files, figures.

The info string of a fence is its language, and for a command that no test runs the reason:

  ```sh                            run as it stands
  ```sh not-run: needs a cluster   its flags are checked, nothing is run
  ```python                        run as it stands
  ```output                        lines that the block before prints, in this order; … is any text
"""

import dataclasses
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).parents[3]
SHELL = ("sh", "bash", "shell")
RUN = (*SHELL, "python")
OUTPUT = "output"
LANGUAGES = (*RUN, OUTPUT, "json", "mermaid", "text")
GENERATED = ("benchmarks/RESULTS.md", "benchmarks/RESULTS_busy.md")
# Pages that reference.py writes: what they say stands in the code, too.
FROM_CODE = ("docs/reference/", "docs/troubleshooting.md")
_NOT_RUN = "not-run:"
_FENCE = re.compile(r"^```+[ ]*(\S*)[ ]*(.*)$")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block."""

    document: str  # path from the root
    line: int  # of the opening fence, from 1
    language: str
    reason: str  # why no test runs it; empty: one does
    text: str

    @property
    def where(self) -> str:
        return f"{self.document}:{self.line}"

    @property
    def is_run(self) -> bool:
        return self.language in RUN and not self.reason


def names() -> tuple[str, ...]:
    """Path of every Markdown file that git tracks, but for those that a command writes."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    return tuple(name for name in listed if name not in GENERATED and (ROOT / name).exists())


def read(name: str) -> str:
    return (ROOT / name).read_text()


def blocks(name: str, text: str | None = None) -> tuple[Block, ...]:
    """The fenced blocks of a document, in its order.

    Args:
      text: its content, where it is not read from the file.

    Raises:
      ValueError: a fence says something else than a language and a reason.
    """
    found: list[Block] = []
    lines = iter(enumerate((read(name) if text is None else text).splitlines(), start=1))
    for number, line in lines:
        if fence := _FENCE.match(line):
            language, rest = fence.groups()
            inner = _inner(lines)
            found.append(
                Block(
                    document=name,
                    line=number,
                    language=language,
                    reason=_reason(rest, name, number),
                    text=inner,
                )
            )
    return tuple(found)


def prose(name: str) -> str:
    """The document without its fenced blocks."""
    outside: list[str] = []
    lines = iter(enumerate(read(name).splitlines(), start=1))
    for _, line in lines:
        if _FENCE.match(line):
            _inner(lines)
        else:
            outside.append(line)
    return "\n".join(outside)


def _inner(lines) -> str:
    inside: list[str] = []
    for _, line in lines:
        if line.startswith("```"):
            break
        inside.append(line)
    return "\n".join(inside)


def _reason(rest: str, name: str, number: int) -> str:
    if not rest:
        return ""
    reason = rest.removeprefix(_NOT_RUN).strip()
    if not rest.startswith(_NOT_RUN) or not reason:
        raise ValueError(f"{name}:{number}: received a fence with '{rest}'; expected '{_NOT_RUN} REASON'")
    return reason
