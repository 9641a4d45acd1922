"""JSON Lines: an object on each line, plain or compressed (by file name extension), in byte ranges."""

import codecs
import dataclasses
import json
import re
from collections.abc import Iterable, Iterator

from beam_jobs.sources import files, lines
from beam_jobs.sources.byte_streams import in_batches
from beam_jobs.sources.columns import NumberedRow, raw_rows
from beam_jobs.sources.source import Input, InputSplit, RawRows, Rejection, excerpt

_ESCAPED = re.compile(rb"\\u[dD][89a-fA-F]")
_KEY = 40  # characters of a name that are shown, at most
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class JsonLines:
    """Columns are named by path, `address.zip`; null or absent is missing. Other lines are rejected."""

    split_bytes: int = files.SPLIT_BYTES
    batch_rows: int = 1 << 12

    def input_splits(self, inputs: Iterable[Input]) -> list[InputSplit]:
        return lines.input_splits(inputs, split_bytes=self.split_bytes)

    def read(self, input_split: InputSplit) -> Iterator[RawRows]:
        numbered = lines.NumberedLines(input_split)
        for batch in in_batches(numbered, at_most=self.batch_rows, size=lambda line: len(line[1])):
            rows: list[NumberedRow] = []
            rejected: list[Rejection] = []
            for number, line in batch:
                try:
                    rows.append(NumberedRow(number, _object(line)))
                except (ValueError, RecursionError) as error:
                    reason = f"not a JSON object ({_short(error)})"
                    rejected.append(
                        Rejection(
                            source=input_split.name,
                            row=number,
                            reason=reason,
                            raw=excerpt(line.strip()),
                        )
                    )
            yield raw_rows(input_split, rows, rejected=rejected)
        if input_split.end is not None:
            yield dataclasses.replace(raw_rows(input_split, []), lines=numbered.count)


def _object(line: bytes) -> dict:
    value = _DECODER.decode(line.removeprefix(codecs.BOM_UTF8).decode())
    if not isinstance(value, dict):
        raise ValueError(f"a {type(value).__name__}")
    if _ESCAPED.search(line) and _SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise ValueError("half of a surrogate pair, which is no character")
    return value


def _with_each_key_once(pairs: list[tuple[str, object]]) -> dict:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)[:_KEY]!r} twice")
    return found


# The decoder is made once: json.loads with a hook would make one for each line, which takes half as long as
# decoding the line.
_DECODER = json.JSONDecoder(object_pairs_hook=_with_each_key_once)


def _short(error: Exception) -> str:
    """Returns a message without line and column, so that equal mistakes are counted together."""
    if isinstance(error, json.JSONDecodeError):
        return error.msg
    return "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
