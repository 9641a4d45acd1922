"""JSON documents that carry the digest of all else that they say, so that a damaged one is noticed."""

import hashlib
import json
from collections.abc import Mapping

KEY = "digest"


def digest(document: Mapping) -> str:
    """SHA-256, in hexadecimal, of what the document says besides its digest, however it is written."""
    said = {key: value for key, value in document.items() if key != KEY}
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=repr).encode()).hexdigest()


def with_digest(document: Mapping) -> dict:
    """The document and its digest."""
    return {**document, KEY: digest(document)}


def check(document: Mapping) -> None:
    """Raises ValueError where the digest is absent or another."""
    if document.get(KEY) != digest(document):
        raise ValueError(f"digest {digest(document)[:12]} where the file says {str(document.get(KEY))[:12]}")
