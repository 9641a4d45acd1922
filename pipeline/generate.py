r"""Continues text with a language model of a run or an export, one token after the other.

  python -m pipeline.generate --model=runs/corpus --prompt="ROMEO:" --tokens=200 --seed=1
  python -m pipeline.generate --model=exports/corpus/1 --prompts=prompts.txt --temperature=0 --json=texts.json

The text is the same for the same seed, prompt and place of the prompt among --prompts. A token costs the same
however long the text is: for models/transformer.py, keys and values of the tokens before are kept; any other
model computes a whole row for each token. A row has the --sequence_length of the training data. The model
does not see what is farther back.
"""

if __name__ == "__main__":  # Ctrl-C may come while the imports below run
    from pipeline.base.cli import signals

    signals.handle_signals()

import sys
from collections.abc import Sequence

from absl import flags

from pipeline.base import files
from pipeline.base.cli import flags as flags_lib
from pipeline.base.cli.command import Command
from pipeline.base.cli.run import run_command
from pipeline.base.errors import InputError
from pipeline.generation.sampling import Sampling

_MODEL = flags.DEFINE_string(
    "model", None, "DIRECTORY: an export of pipeline.export, or a --workdir of pipeline.train."
)
_CHECKPOINT = flags.DEFINE_string(
    "checkpoint", "", "best|last|STEP: the checkpoint of a --workdir, as for pipeline.export."
)
_TOKENIZER = flags.DEFINE_string(
    "tokenizer",
    "",
    "FILE: the tokenizer that convert made the tokens with. Leave it out where that was bytes.",
)
_PROMPT = flags.DEFINE_multi_string("prompt", [], "TEXT: a prompt to continue.")
_PROMPTS = flags.DEFINE_string("prompts", None, "FILE: prompts in UTF-8, one a line.")
_TOKENS = flags.DEFINE_integer("tokens", 200, "Tokens after each prompt, at most.", lower_bound=1)
_TEMPERATURE = flags.DEFINE_float(
    "temperature",
    1.0,
    "Below 1, likely tokens become likelier. 0 always takes the most probable token.",
)
_TOP_K = flags.DEFINE_integer(
    "top_k", 0, "Draw only from this many of the most probable tokens. 0 means all tokens."
)
_TOP_P = flags.DEFINE_float(
    "top_p", 1.0, "Draw from the fewest of the most probable tokens that have this probability together."
)
_SEED = flags.DEFINE_integer("seed", 0, "Decides the draws: the same seed gives the same texts.")
_STOP = flags.DEFINE_multi_string("stop", [], "TEXT: a continuation ends before this text.")
_JSON = flags.DEFINE_string("json", None, "FILE: also write prompts and texts to it, as JSON.")

COMMAND = Command(
    name="pipeline.generate",
    description=__doc__,
    required=(_MODEL,),
    flags={
        "The model": (_MODEL, _CHECKPOINT, _TOKENIZER),
        "The text": (_PROMPT, _PROMPTS, _TOKENS, _STOP, _JSON),
        "The choice of a token": (_TEMPERATURE, _TOP_K, _TOP_P, _SEED),
    },
)


def main(argv: Sequence[str]) -> None:
    del argv
    flags_lib.check_local_files({"json": _JSON.value})
    sampling = Sampling(
        temperature=_TEMPERATURE.value, top_k=_TOP_K.value, top_p=_TOP_P.value, seed=_SEED.value
    )
    prompts = [*_PROMPT.value, *_lines(_PROMPTS.value)]
    if not all(prompts) or not prompts:
        raise InputError(
            "--prompt",
            received="none" if not prompts else "an empty one",
            expected="text to continue, here or in the file of --prompts: a model does not learn the first "
            "token of a document",
            action='Give the first word, such as --prompt="The ".',
        )
    for flag, texts in (("prompt", _PROMPT.value), ("stop", _STOP.value)):
        _check_unicode(flag, texts)
    if not all(_STOP.value):
        raise InputError(
            "--stop",
            received="an empty one",
            expected="text that ends a continuation",
            action="Leave it out: a document's own end stops it, too.",
        )
    # Imported here: TensorFlow takes seconds, and --help or a wrong flag should not.
    from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

    # isort: split
    from pipeline.generation import texts
    from pipeline.generation.opening import open_language_model

    opened = open_language_model(
        flags_lib.local_directory("model", _MODEL.value),
        tokenizer=_TOKENIZER.value,
        checkpoint=_CHECKPOINT.value,
    )
    found = texts.continue_texts(
        opened, prompts, most=_TOKENS.value, sampling=sampling, stops=tuple(_STOP.value)
    )
    print("\n\n".join(f"{each.prompt}{each.text}" for each in found))
    for note in texts.notes(found, tokenizer=opened.tokenizer, length=opened.label.length):
        print(f"note: {note}", file=sys.stderr)  # stdout holds the texts alone
    if _JSON.value:
        files.write_json(_JSON.value, texts.document(found, opened, sampling))


def _check_unicode(flag: str, given: Sequence[str]) -> None:
    for text in given:
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise InputError(
                f"--{flag}",
                received=text,
                expected="UTF-8",
                action="Correct it, or the encoding of the terminal.",
            )


def _lines(path: str | None) -> list[str]:
    if path is None:
        return []
    try:
        text = files.read_bytes(path).decode("utf-8-sig")  # an editor may write a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"--prompts={path}",
            received=getattr(error, "strerror", None) or " ".join(str(error).split()),
            expected="a file of UTF-8 text, a prompt a line",
            action="Correct the path or the file.",
        ) from None
    # Not splitlines: it also ends a line at a form feed, or at U+2028.
    return [each for line in text.split("\n") if (each := line.removesuffix("\r"))]


if __name__ == "__main__":
    run_command(main, COMMAND)
