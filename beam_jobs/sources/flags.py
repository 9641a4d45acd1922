"""The flags that say how raw data is read, which `convert`, `infer_schema` and `predict` share."""

from collections.abc import Sequence

from absl import flags

from beam_jobs.sources.formats import FORMATS, Option, format_of, open_source
from beam_jobs.sources.pieces.source import Input, Source
from beam_jobs.sources.tokens.token_rows import PACKINGS, TokenRows
from beam_jobs.sources.tokens.tokenizers import open_tokenizer

_FORMAT = flags.DEFINE_enum(
    "format",
    None,
    list(FORMATS),
    "Raw format. By default the file names tell it; folders of images need images.",
)


def _define(option: Option) -> flags.FlagHolder:
    if option.choices:
        return flags.DEFINE_enum(option.flag, option.default, option.choices, option.help)
    define = flags.DEFINE_string if isinstance(option.default, str) else flags.DEFINE_list
    return define(option.flag, option.default, option.help)


_OPTIONS = tuple(_define(option) for known in FORMATS.values() for option in known.options)
_TOKENIZER = flags.DEFINE_string(
    "tokenizer",
    None,
    "FILE: makes rows of tokens. A tokenizer.json (Hugging Face), a .model (SentencePiece), or `bytes`, a "
    "token for each byte. Give it to infer_schema and to convert.",
)
_SEQUENCE_LENGTH = flags.DEFINE_integer(
    "sequence_length", 512, "Tokens in a row, in infer_schema as in convert.", 1
)
_PACKING = flags.DEFINE_enum(
    "packing",
    "packed",
    PACKINGS,
    "packed: each row is filled with documents. Otherwise a row holds one document, cut or padded.",
)
_TEXT_COLUMN = flags.DEFINE_string("text_column", "text", "COLUMN: what --tokenizer reads.")

RAW_DATA = (_FORMAT, *_OPTIONS)
TOKENS = (_TOKENIZER, _SEQUENCE_LENGTH, _PACKING, _TEXT_COLUMN)


def source_of(inputs: Sequence[Input]) -> Source:
    """The source that the flags and the names of `inputs` say; raises InputError."""
    source = open_source(_FORMAT.value or format_of(inputs), {flag.name: flag.value for flag in _OPTIONS})
    if _TOKENIZER.value is None:
        return source
    return TokenRows(
        source=source,
        tokenizer=open_tokenizer(_TOKENIZER.value),
        column=_TEXT_COLUMN.value,
        length=_SEQUENCE_LENGTH.value,
        packing=_PACKING.value,
    )
