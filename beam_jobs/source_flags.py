"""The flags that say what raw data is and how to read it, which `convert` and `infer_schema` share."""

from collections.abc import Sequence

from absl import flags

from beam_jobs import command_line
from beam_jobs.sources import FORMATS, format_of, open_source
from beam_jobs.sources.source import Input, Source
from beam_jobs.sources.text import UNITS
from beam_jobs.sources.tokens import PACKINGS, TokenRows
from beam_jobs.text.tokenizers import open_tokenizer

_FORMAT = flags.DEFINE_enum("format", None, FORMATS, "Raw format; by default what the inputs' names say.")
_COLUMN_NAMES = flags.DEFINE_list("column_names", [], "Column names of CSV files that have no header.")
_DELIMITER = flags.DEFINE_string("delimiter", ",", "What separates CSV cells; \\t for a tab.")
_TEXT_UNIT = flags.DEFINE_enum(
    "text_unit", "line", UNITS, "What a row of text files is; a document is a file."
)
_TOKENIZER = flags.DEFINE_string(
    "tokenizer",
    None,
    "Makes rows of tokens: 'bytes', a tokenizer.json (Hugging Face), a .model (SentencePiece).",
)
_SEQUENCE_LENGTH = flags.DEFINE_integer("sequence_length", 512, "Tokens a row.", 1)
_PACKING = flags.DEFINE_enum(
    "packing",
    "packed",
    PACKINGS,
    "Rows full of documents, or one document a row, cut or padded.",
)
_TEXT_COLUMN = flags.DEFINE_string("text_column", "text", "Column that --tokenizer reads.")


def source_of(inputs: Sequence[Input]) -> tuple[str, Source]:
    """The raw format and its source, as the flags say; raises InputError."""
    raw_format = _FORMAT.value or format_of(inputs)
    source = open_source(
        raw_format,
        column_names=_COLUMN_NAMES.value,
        delimiter=command_line.separator(_DELIMITER.value),
        text_unit=_TEXT_UNIT.value,
    )
    if _TOKENIZER.value is None:
        return raw_format, source
    return raw_format, TokenRows(
        source=source,
        tokenizer=open_tokenizer(_TOKENIZER.value),
        column=_TEXT_COLUMN.value,
        length=_SEQUENCE_LENGTH.value,
        packing=_PACKING.value,
    )
