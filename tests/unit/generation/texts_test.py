"""The texts of continuations, and what is said beside them."""

from collections.abc import Sequence

import pytest

from pipeline.data.preprocessing.tokenizers import ByteTokenizer
from pipeline.generation.decoding import Continued
from pipeline.generation.texts import Continuation, _continuation, notes


class Words:
    """A tokenizer of words, which leaves out the blank before the first one, as SentencePiece does."""

    end = 0
    words = ("", " the", " cat", " sat", "s")

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(self.words[token] for token in tokens).removeprefix(" ")


@pytest.mark.parametrize(
    ("tokens", "stops", "text", "ended"),
    [
        ([3], (), " sat", "length"),
        ([4, 3], (), "s sat", "length"),
        ([3, 0], (), " sat", "end"),
        ([3, 1], (" ",), "", "stop"),
        ([4, 3, 1], (" sat",), "s", "stop"),
    ],
)
def test_a_text_goes_on_with_the_blank_of_its_first_word(tokens, stops, text, ended):
    found = Continued(prompt=(1, 2), tokens=tokens, ended="end" if tokens[-1] == 0 else "length")
    made = _continuation("the cat", found, Words(), stops)
    assert (made.text, made.ended, made.tokens) == (text, ended, len(tokens))


def test_prompts_that_are_cut_and_empty_texts_are_told():
    usual = Continuation(prompt="ab", text="c", tokens=1, ended="length")
    cut = Continuation(prompt="\N{GRINNING FACE}a", text="b", tokens=1, ended="length")
    ended = Continuation(prompt="ab", text="", tokens=1, ended="end")
    assert list(notes([usual, cut, ended], tokenizer=ByteTokenizer(), length=4)) == [
        "prompt 2 has 5 tokens, of which the model sees the last 4.",
        "nothing follows prompt 3: the model ended the document at once.",
    ]
