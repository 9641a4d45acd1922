"""CSV read by a state machine that goes character by character: the reader that ours is held against."""

import dataclasses
from collections.abc import Iterator

from beam_jobs.sources.csv_rows import Dialect

DIALECTS = (
    Dialect(),
    Dialect(escape="\\"),
    Dialect(quote="none"),
    Dialect(quote="none", escape="\\"),
    Dialect(quote="'", delimiter=";"),
)


@dataclasses.dataclass
class CarefulRow:
    """A row as a state machine finds it, character by character."""

    line: int
    end: int = 0  # offset behind it
    lines: int = 1
    cells: list[str] = dataclasses.field(default_factory=lambda: [""])
    is_blank: bool = True
    is_flawed: bool = False


def careful_rows(content: str, dialect: Dialect) -> Iterator[CarefulRow]:
    """Yields all rows, blank ones too; `is_flawed`: text behind a closing quote, or one never closed."""
    row, place, line, state = CarefulRow(line=1), 0, 1, "fresh"
    while place < len(content):
        character, following = content[place], content[place + 1 : place + 2]
        place += 1
        line += character == "\n" or (character == "\r" and following != "\n")
        special = (dialect.quote, dialect.escape, dialect.delimiter, "\n", "\r")
        if character == dialect.escape and following and following in special:
            row.cells[-1] += following
            place += 1
            line += following == "\n" or (following == "\r" and content[place : place + 1] != "\n")
        elif character == dialect.quote and state == "quoted":
            if following == dialect.quote:
                row.cells[-1] += character
                place += 1
            else:
                state = "closed"
            continue
        elif character == dialect.quote and state == "fresh":
            row.is_blank, state = False, "quoted"
            continue
        elif state != "quoted" and character == dialect.delimiter:
            row.cells.append("")
            row.is_blank, state = False, "fresh"
            continue
        elif state != "quoted" and character in "\r\n":
            place += character == "\r" and following == "\n"
            line += character == "\r" and following == "\n"
            row.end, row.lines = place, line - row.line
            yield row
            row, state = CarefulRow(line=line), "fresh"
            continue
        else:
            row.cells[-1] += character
        row.is_blank = False
        row.is_flawed |= state == "closed" and character not in " \t"
        state = "plain" if state == "fresh" else state
    if not row.is_blank:
        row.end, row.lines = place, line - row.line + (content[-1] not in "\r\n")
        row.is_flawed |= state == "quoted"
        yield row
