"""The language model and the tokenizer of a run's working directory, or of an export."""

import dataclasses
import pathlib

import keras

from pipeline.base.errors import InputError
from pipeline.data.dataset import records
from pipeline.data.preprocessing.tokenizers import BYTES, Tokenizer, open_tokenizer, require_same
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import TokenLabel
from pipeline.data.schema.schema import Schema
from pipeline.exporting import keras_file
from pipeline.exporting.runtimes import KERAS_FILE
from pipeline.training.experiment import restore
from pipeline.training.state import workdir


@dataclasses.dataclass(frozen=True, kw_only=True)
class LanguageModel:
    """`model`: tokens and segments as `label` names them → logits float32 [batch, length, tokens]."""

    model: keras.Model
    label: TokenLabel
    tokenizer: Tokenizer
    described: str  # where the weights are from


def open_language_model(
    directory: pathlib.Path, *, tokenizer: str = "", checkpoint: str = ""
) -> LanguageModel:
    """Opens an export, or a run with a checkpoint of it.

    Args:
      tokenizer: as --tokenizer of convert; empty: what the schema says, if that is bytes.
      checkpoint: `best`, `last` or a step, for a run; empty: as for an export.

    Raises:
      InputError: there is neither, it predicts no tokens, or another tokenizer made its tokens.
    """
    if (directory / records.FILE_NAME).exists():
        if checkpoint:
            raise InputError(
                f"--checkpoint={checkpoint}",
                received=f"an export, {directory}",
                expected="the working directory of a run: an export holds one checkpoint",
                action="Leave it out, or give the run as --model.",
            )
        model, schema, described = _of_export(directory)
    elif not workdir.Workdir(directory).run.exists():
        raise InputError(
            f"--model={directory}",
            received="neither export.json nor run.json there" if directory.is_dir() else "no such directory",
            expected="an export of pipeline.export, or a working directory of pipeline.train",
            action="Name one; a run whose command ended before its first step has no model yet.",
        )
    else:
        run = restore.restore_model(directory, checkpoint=checkpoint)
        model, schema, described = run.model, run.schema, run.choice
    label = _token_label(schema, model, directory)
    return LanguageModel(
        model=model, label=label, tokenizer=tokenizer_of(tokenizer, schema, label), described=described
    )


def _of_export(directory: pathlib.Path) -> tuple[keras.Model, Schema, str]:
    document = records.open_export(directory)
    schema = schema_lib.load(directory / schema_lib.FILE_NAME)
    if not (directory / KERAS_FILE).exists():
        raise InputError(
            f"export {directory}",
            received=f"no {KERAS_FILE}: {document['formats']['keras'].get('left_out', 'it was removed')}",
            expected="the model as Keras loads it: a SavedModel scores whole rows only",
            action="Give the working directory of the run in place of its export.",
        )
    return keras_file.load(directory / KERAS_FILE), schema, f"step {document['step']:,}"


def _token_label(schema: Schema, model: keras.Model, directory: pathlib.Path) -> TokenLabel:
    names = {each.name for each in model.inputs}
    label = schema.label
    if isinstance(label, TokenLabel) and names <= set(label.parts):
        return label
    others = sorted(names - set(label.parts)) if isinstance(label, TokenLabel) else []
    raise InputError(
        f"--model={directory}",
        received=f"a model that needs {', '.join(others)}, too" if others else f"one of task {label.task}",
        expected="a language model, of tokens alone: task next_token",
        action="Train one with pipeline/configs/language_model.py; evaluate and predict take others.",
    )


def tokenizer_of(name: str, schema: Schema, label: TokenLabel) -> Tokenizer:
    """Opens the tokenizer of `label`; raises InputError where `name` is empty and bytes are not it."""
    if not name and label.tokenizer != BYTES:
        raise InputError(
            "--tokenizer",
            received="none",
            expected=f"the tokenizer of the model's tokens: {label.tokenizer or 'the schema does not say'}",
            action="Give the file that convert was given."
            if label.tokenizer
            else "Give the file that convert was given, or bytes.",
        )
    tokenizer = open_tokenizer(name or BYTES)
    require_same(tokenizer, schema[label.name])
    return tokenizer
