"""Proposes the schema of tokenised text, which follows from the tokenizer and the length alone."""

from beam_jobs.propose import Proposal
from beam_jobs.sources.tokens import SEGMENTS_COLUMN, TOKENS_COLUMN, TokenRows
from pipeline.data.features import Tokens
from pipeline.data.schema import Schema


def propose_tokens(source: TokenRows, *, name: str) -> Proposal:
    """Features `tokens` and `segments`, which tells the documents in a row apart: 1, 2 …; 0 is padding."""
    features = (
        Tokens(name=TOKENS_COLUMN, length=source.length, vocabulary_size=source.tokenizer.size),
        Tokens(name=SEGMENTS_COLUMN, length=source.length, vocabulary_size=source.length + 1),
    )
    end = source.tokenizer.end
    closes = f"token {end} closes each document" if end is not None else "no token closes a document"
    return Proposal(
        schema=Schema(name=name, features=features),
        review=(f"'{TOKENS_COLUMN}': {source.tokenizer.size:,} token ids; {closes}.",),
    )
