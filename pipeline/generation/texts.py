"""Continuations as text: prompts are encoded, stop texts cut off, and results described."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from pipeline.base.errors import InputError
from pipeline.data.preprocessing.tokenizers import Tokenizer
from pipeline.generation.decoding import Continued, continue_prompts, decoding_of
from pipeline.generation.opening import LanguageModel
from pipeline.generation.sampling import Sampling


@dataclasses.dataclass(frozen=True, kw_only=True)
class Continuation:
    """`text` came after `prompt`, without a stop text; `tokens` were computed for it."""

    prompt: str
    text: str
    tokens: int
    ended: str  # by: `end` of the document, `stop`, or `length`


def continue_texts(
    opened: LanguageModel,
    prompts: Sequence[str],
    *,
    most: int,
    sampling: Sampling,
    stops: Sequence[str] = (),
) -> list[Continuation]:
    """Continues each prompt by up to `most` tokens, to a stop text or to the end of its document.

    Raises:
      InputError: a prompt has no token.
    """
    tokenizer = opened.tokenizer
    encoded = [tokens.tolist() for tokens in tokenizer.encode(prompts)]
    for prompt, tokens in zip(prompts, encoded, strict=True):
        if not tokens:
            raise InputError(
                "--prompt, or a line of --prompts",
                received=f"{prompt!r}, which has no token",
                expected="text that has at least one token",
                action=f"Leave it out, or begin with other text: {tokenizer.name} drops all of this.",
            )
    found = continue_prompts(
        decoding_of(opened.model, opened.label),
        encoded,
        length=opened.label.length,
        most=most,
        sampling=sampling,
        end=tokenizer.end,
        is_stop=_is_stop(opened, stops),
    )
    return [
        _continuation(prompt, each, tokenizer, stops) for prompt, each in zip(prompts, found, strict=True)
    ]


def _continuation(prompt: str, found: Continued, tokenizer: Tokenizer, stops: Sequence[str]) -> Continuation:
    whole = text_behind(tokenizer, found.prompt, _without(found.tokens, tokenizer.end))
    text = _before(stops, whole)
    ended = "stop" if text != whole else found.ended
    return Continuation(prompt=prompt, text=text, tokens=len(found.tokens), ended=ended)


def text_behind(tokenizer: Tokenizer, prompt: Sequence[int], tokens: Sequence[int]) -> str:
    """The text of tokens behind a prompt: many tokenizers leave out the blank of a word that stands first."""
    before, whole = tokenizer.decode(prompt), tokenizer.decode([*prompt, *tokens])
    return whole.removeprefix(before) if whole.startswith(before) else tokenizer.decode(tokens)


def _is_stop(opened: LanguageModel, stops: Sequence[str]) -> Callable[[Sequence[int]], bool]:
    # Each token has a byte at least, so a stop text that has just ended has no more tokens than bytes. One
    # more stands before it: the first of all may lose its blank.
    longest = 1 + max((len(stop.encode()) for stop in stops), default=0)

    def is_stop(tokens: Sequence[int]) -> bool:
        if not stops:
            return False
        recent = opened.tokenizer.decode(tokens[-longest:])
        return any(stop in recent for stop in stops)

    return is_stop


def _without(tokens: Sequence[int], end: int | None) -> Sequence[int]:
    return tokens[:-1] if tokens and tokens[-1] == end else tokens


def _before(stops: Sequence[str], text: str) -> str:
    """The text up to the first of the stop texts."""
    return text[: min((text.find(stop) for stop in stops if stop in text), default=len(text))]


def notes(found: Sequence[Continuation], *, tokenizer: Tokenizer, length: int) -> Iterator[str]:
    """Yields what the texts do not tell: what the tokenizer's file asks for and does not get, prompts longer
    than a row of `length`, and empty continuations.
    """
    yield from tokenizer.remarks
    sizes = map(len, tokenizer.encode([each.prompt for each in found]))
    for number, (each, size) in enumerate(zip(found, sizes, strict=True), 1):
        if size > length:
            yield f"prompt {number} has {size:,} tokens, of which the model sees the last {length:,}."
        if not each.text:
            ending = {"stop": "a --stop text came at once", "end": "the model ended the document at once"}
            yield f"nothing follows prompt {number}: {ending.get(each.ended, 'no token gave text')}."


def document(found: Sequence[Continuation], opened: LanguageModel, sampling: Sampling) -> dict:
    """What --json writes."""
    return {
        "weights": opened.described,
        "tokenizer": opened.tokenizer.name,
        "sampling": dataclasses.asdict(sampling),
        "texts": [dataclasses.asdict(each) for each in found],
    }
