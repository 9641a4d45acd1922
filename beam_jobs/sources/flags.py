"""The flags that say how raw data is read, which `convert`, `infer_schema` and `predict` share."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from absl import flags

from beam_jobs.cells.images import check_root
from beam_jobs.sources import dialect, formats
from beam_jobs.sources.files import WithPartitions, read_bytes
from beam_jobs.sources.formats import FORMATS, Option, format_of, open_source
from beam_jobs.sources.images import ImageFolders, WithPathRoots
from beam_jobs.sources.source import Input, Source
from beam_jobs.sources.tokens import PACKINGS, TokenRows
from pipeline.base.errors import InputError
from pipeline.data.preprocessing.tokenizers import open_tokenizer, require_same
from pipeline.data.schema.feature_json import schema_error
from pipeline.data.schema.feature_types import Tokens
from pipeline.data.schema.schema import Schema

_ENCODING = "encoding"
_FORMAT = flags.DEFINE_enum(
    "format",
    None,
    list(FORMATS),
    "Raw format. The default follows from the file names, else from what infer_schema noted in the schema. "
    "infer_schema needs --format=images for folders of images.",
)


def _define(option: Option) -> flags.FlagHolder:
    if option.choices:
        return flags.DEFINE_enum(option.flag, option.default, option.choices, option.help)
    define = flags.DEFINE_string if isinstance(option.default, str) else flags.DEFINE_list
    return define(option.flag, option.default, option.help)


_OPTIONS = tuple(_define(option) for known in FORMATS.values() for option in known.options)
_PATH_ROOT = flags.DEFINE_multi_string(
    "path_root",
    [],
    "FOLDER: paths of images in a table's column may lead here too, besides the table's own folder.",
)
_TOKENIZER = flags.DEFINE_string(
    "tokenizer",
    None,
    "FILE: makes rows of tokens. A tokenizer.json (Hugging Face), a .model (SentencePiece), or `bytes`, a "
    "token for each byte. Give it to infer_schema and to convert.",
)
_SEQUENCE_LENGTH = flags.DEFINE_integer(
    "sequence_length", 512, "Tokens in a row, in infer_schema as in convert: the first is not predicted.", 2
)
_PACKING = flags.DEFINE_enum(
    "packing",
    "packed",
    PACKINGS,
    "packed: documents fill each row. document: a row holds one document, cut or padded. infer_schema notes "
    "it in the schema.",
)
_TEXT_COLUMN = flags.DEFINE_string(
    "text_column",
    "text",
    "COLUMN: the column that --tokenizer reads; that of text files is called text. infer_schema notes it in "
    "the schema.",
)


def settings_of(source: Source, inputs: Sequence[Input]) -> dict[str, Any]:
    """Returns the flags that say how the raw files are read, for the schema; --format too, if no file name
    says it.
    """
    plain = source.source if isinstance(source, TokenRows | WithPathRoots) else source
    said = {"format": _FORMAT.value} if _FORMAT.value and not formats.do_names_tell(inputs) else {}
    of_tokens = _REMEMBERED_OF_TOKENS if isinstance(source, TokenRows) else ()
    text = {flag.name: flag.value for flag in of_tokens if flag.value != flag.default}
    return said | formats.settings_of(plain) | text


def format_settings(settings: Mapping[str, Any]) -> str:
    """Formats how files with these settings are read; empty where the format has no settings."""
    return dialect.format_dialect(settings) if "delimiter" in settings else ""


def _known(raw_format: str, remembered: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a schema remembers of this format; raises InputError where a value is not valid."""
    found = {}
    for option in FORMATS[raw_format].options:
        value = remembered.get(option.flag, option.default)
        wrong_kind = isinstance(value, list) != isinstance(option.default, tuple) and bool(value)
        if wrong_kind or (value and not _is_possible(option, value)):
            raise schema_error(f"raw_files, field '{option.flag}'", repr(value), option.help)
        if value:
            found[option.flag] = value
    return found


def _is_possible(option: Option, value: object) -> bool:
    try:
        option.parse(value)
    except InputError:
        return False
    return not option.choices or value in option.choices


RAW_DATA = (_FORMAT, *_OPTIONS, _PATH_ROOT)
TOKENS = (_TOKENIZER, _SEQUENCE_LENGTH, _PACKING, _TEXT_COLUMN)
_REMEMBERED_OF_TOKENS = (_PACKING, _TEXT_COLUMN)  # what a schema notes beside the options of the format


def source_of(
    inputs: Sequence[Input], *, remembered: Mapping[str, Any] | None = None, guess: bool = False
) -> Source:
    """The source by the flags, else by what a schema has `remembered`, else by the files of `inputs`.

    With `guess`, it also takes from the files what is not certain. Raises InputError.
    """
    raw_format = _FORMAT.value or format_of(inputs, remembered=(remembered or {}).get("format"))
    given = {flag.name: flag.value for flag in _OPTIONS if _is_given(flag)}
    _check_encoding(given, raw_format)
    known = _known(raw_format, remembered or {})
    values = said = known | given
    if find := FORMATS[raw_format].find:
        values = said | find(inputs, said, guess=guess, remembered=known.keys() - given.keys())
    source = open_source(raw_format, values)
    if check := FORMATS[raw_format].check:
        check(source, inputs, given=said)
    if _TOKENIZER.value is None:
        return _with_path_roots(source)
    text = _text_settings(remembered or {})
    return TokenRows(
        source=source,
        tokenizer=open_tokenizer(_TOKENIZER.value, read=read_bytes),
        column=text[_TEXT_COLUMN.name],
        length=_SEQUENCE_LENGTH.value,
        packing=text[_PACKING.name],
    )


def _check_encoding(given: Collection[str], raw_format: str) -> None:
    """Raises InputError where --encoding is given for a format that does not read it: its text would become
    other characters than the flag promises.
    """
    readers = [name for name, known in FORMATS.items() if _ENCODING in {each.flag for each in known.options}]
    if _ENCODING in given and raw_format not in readers:
        raise InputError(
            f"--{_ENCODING}",
            received=f"files of --format={raw_format}",
            expected=f"files of --format={', '.join(readers)}; text of all others is UTF-8",
            action="Leave it out; to make a file UTF-8: iconv -f latin1 -t utf-8 FILE > NEW.",
        )


def _is_given(flag: flags.FlagHolder) -> bool:
    """Returns whether a flag has a value that is more than its default."""
    return bool(flag.value) and (bool(flag.present) or flag.value != flag.default)


def _text_settings(remembered: Mapping[str, Any]) -> dict[str, str]:
    """The values of `_REMEMBERED_OF_TOKENS`: of the flags, else what a schema remembers; raises
    InputError.
    """
    found = {
        flag.name: flag.value if _is_given(flag) else remembered.get(flag.name, flag.default)
        for flag in _REMEMBERED_OF_TOKENS
    }
    packing, column = found[_PACKING.name], found[_TEXT_COLUMN.name]
    if packing not in PACKINGS:
        raise schema_error(f"raw_files, field '{_PACKING.name}'", repr(packing), f"one of {PACKINGS}")
    if not isinstance(column, str):
        raise schema_error(f"raw_files, field '{_TEXT_COLUMN.name}'", repr(column), "the name of a column")
    return found


def check_tokenizer(source: Source, schema: Schema) -> None:
    """Raises InputError where --tokenizer is another one than the schema's tokens are made with."""
    for tokens in schema.of_type(Tokens) if isinstance(source, TokenRows) else ():
        require_same(source.tokenizer, tokens)


def with_partitions(source: Source, columns: Collection[str] | None = None) -> Source:
    """A table's source that also reads these columns (None: all) from folder names: `date=2026-11-01`."""
    is_table = not isinstance(source, ImageFolders | TokenRows)
    return WithPartitions(source=source, columns=columns) if is_table else source


def _with_path_roots(source: Source) -> Source:
    roots = tuple(map(check_root, _PATH_ROOT.value))
    is_table = not isinstance(source, ImageFolders)
    return WithPathRoots(source=source, roots=roots) if roots and is_table else source
