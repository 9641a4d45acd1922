"""Takes secrets out of what is printed or kept: log-ins in URIs, tokens, passwords and keys.

It recognises secrets by names and by the form of URIs, and misses those in other forms. A secret belongs in
an environment variable; this is only a safety net.
"""

import re
from collections.abc import Mapping

HIDDEN = "…"
_SECRET = (
    r"(?:[\w-]*[_-])?(?:token|password|passwd|secret|api[_-]?key|authorization|signature|sig|credentials?)"
)
_LOGIN = re.compile(r"(?<=://)[^/?#\s'\"]+@")  # user:password before a host
_PARAMETER = re.compile(rf"(?<=[?&])({_SECRET})=[^&#\s'\"]*", re.IGNORECASE)
_ITEM = re.compile(
    rf"""\b({_SECRET}["']?\s*[:=]\s*(?:["']\s*)?)(?:(?:bearer|basic)\s+)?[^\s"',}})&]+""", re.IGNORECASE
)
_NAME = re.compile(_SECRET, re.IGNORECASE)


def public(value: object) -> object:
    """Returns a value of a config without its secrets.

    Texts lose log-ins and secret parameters of URIs. What a mapping holds under a name such as `token`,
    `api_key` or `Authorization` is hidden as a whole.
    """
    if isinstance(value, Mapping):
        return {
            name: HIDDEN if each and _NAME.fullmatch(str(name)) else public(each)
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)(map(public, value))
    return public_uris(value) if isinstance(value, str) else value


def public_uris(text: str) -> str:
    """Returns the text without log-ins and secret parameters of the URIs in it."""
    return _PARAMETER.sub(rf"\1={HIDDEN}", _LOGIN.sub(f"{HIDDEN}@", text))


def public_text(text: str) -> str:
    """Returns the text of an error, or a part of a command line, without what stands after `token=`."""
    return _ITEM.sub(rf"\1{HIDDEN}", public_uris(text))
