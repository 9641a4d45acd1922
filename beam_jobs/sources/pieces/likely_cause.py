"""Why many rows cannot be read: mostly a flag, seldom the rows."""

import re
from collections.abc import Iterable, Mapping

from beam_jobs.cells.problems import NOT_UTF_8
from pipeline.data.errors import InputError

MOST_WRONG = 0.05  # of the rows; more, and a flag is the likely cause
# A byte of a name that is no UTF-8, as the "backslashreplace" of Python writes it.
_BYTE = re.compile(r"\\x[89a-f][0-9a-f]")
_OTHER_ENCODING = "Likely the file has another encoding (--encoding, such as latin-1)."
_BETWEEN_CELLS = re.compile(r"[,;\t|]")
_OTHER_DELIMITER = "Likely another character is between the cells (--delimiter)."
# By what the reason of a rejection says.
_CAUSES = {
    " cells in place of ": "Likely another character is between the cells (--delimiter), quotes are not "
    "closed, the first row is no header (--header=no), or --column_names names too few or too many.",
    NOT_UTF_8: _OTHER_ENCODING,
    "not a JSON object": "Likely the file is one JSON array (jq -c '.[]' FILE makes lines of it), another "
    "format (--format), or in another encoding than UTF-8.",
}


def likely_cause(reasons: Mapping[str, int], *, rows: int) -> str:
    """A sentence and a blank where more than 5% of `rows` were rejected for `reasons`; else nothing."""
    for words, cause in _CAUSES.items():
        if sum(count for reason, count in reasons.items() if words in reason) > MOST_WRONG * rows:
            return f"{cause} "
    return ""


def cause_of_names(names: Iterable[str], *, otherwise: str) -> str:
    """What to do about columns of such `names`, which the schema does not have: a flag, or `otherwise`."""
    names = list(names)
    if any(map(_BYTE.search, names)):
        return _OTHER_ENCODING
    return _OTHER_DELIMITER if len(names) == 1 and _BETWEEN_CELLS.search(names[0]) else otherwise


def check_readable(reasons: Mapping[str, int], *, rows: int, path: str) -> None:
    """Raises InputError if more than 5% of `rows` cannot be read, for `reasons` that are counted."""
    wrong = sum(reasons.values())
    if wrong <= MOST_WRONG * rows:
        return
    counted = ", ".join(
        f"{reasons[reason]:,} × {reason}" for reason in sorted(reasons, key=reasons.get)[:-4:-1]
    )
    raise InputError(
        f"input {path}",
        received=f"{wrong:,} of {rows:,} rows that cannot be read ({counted})",
        expected=f"at most {MOST_WRONG:.0%} of them",
        action=likely_cause(reasons, rows=rows).strip() or "Correct the file.",
    )
