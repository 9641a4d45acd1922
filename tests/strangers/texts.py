"""Columns and files of text: empty, blank, long, in many scripts; for the next token, too."""

import pathlib
import random

from tests.strangers.stranger import Stranger, column, csv_file, visits, with_column

_WORDS = ("the", "a", "cheap", "good", "bad", "late", "box", "came", "was", "not", "très", "好", "мир", "🙂")


def _sentence(number: int) -> str:
    draws = random.Random(number)
    return " ".join(draws.choices(_WORDS, k=draws.randint(4, 20)))


def _often_empty(number: int) -> str:
    return ["", "   ", "\t\n ", _sentence(number)][number % 4]


def _corpus(folder: pathlib.Path) -> None:
    lines = [_sentence(number) for number in range(2_000)]
    (folder / "corpus.txt").write_text("\n".join(["", *lines, "", "   "]) + "\n")


STRANGERS = (
    Stranger(name="text", ugly="a column of sentences", write=column("review", lambda n, row: _sentence(n))),
    Stranger(
        name="text_empty",
        ugly="sentences, a quarter each empty and blank",
        write=column("review", lambda n, row: _often_empty(n)),
    ),
    Stranger(
        name="text_blank_only",
        ugly="a text column of blanks only",
        write=column("review", lambda n, row: " " * (n % 3 + 1)),
    ),
    Stranger(
        name="text_long",
        ugly="texts of 20,000 characters",
        write=csv_file(lambda: with_column(visits(60), "body", lambda n, row: f"{_sentence(n)} " * 400)),
    ),
    Stranger(
        name="text_alone",
        ugly="texts and a label, nothing else",
        write=csv_file(
            lambda: [{"review": _sentence(n), "bought": row["bought"]} for n, row in enumerate(visits())]
        ),
    ),
    Stranger(
        name="text_next_token",
        ugly="a text file, to predict the next token",
        write=_corpus,
        inputs=("corpus.txt",),
        source=("--tokenizer=bytes", "--sequence_length=32"),
        infer=(),
        ends=True,
    ),
)
