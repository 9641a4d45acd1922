"""What is said of continuations beside their texts."""

from pipeline.data.preprocessing.tokenizers import ByteTokenizer
from pipeline.generation.texts import Continuation, notes


def test_prompts_that_are_cut_and_empty_texts_are_told():
    usual = Continuation(prompt="ab", text="c", tokens=1, ended="length")
    cut = Continuation(prompt="\N{GRINNING FACE}a", text="b", tokens=1, ended="length")
    ended = Continuation(prompt="ab", text="", tokens=1, ended="end")
    assert list(notes([usual, cut, ended], tokenizer=ByteTokenizer(), length=4)) == [
        "prompt 2 has 5 tokens, of which the model sees the last 4.",
        "nothing follows prompt 3: the model ended the document at once.",
    ]
