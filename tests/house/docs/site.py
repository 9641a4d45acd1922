"""Changes a page where MkDocs reads Markdown otherwise than GitHub, for which the pages are written.

mkdocs.yml names this file as a hook. It imports nothing of ours: `make docs` runs it in another environment.
"""

import os
import pathlib
import re

MERMAID = "assets/mermaid.min.js"  # `make docs` puts it there, so that no page fetches it from elsewhere
_BLOCK = re.compile(r"^(```+.*?^```+ *)$", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^(```+)(\w*).*")
_LINK = re.compile(r"(?<!!)\[((?:`[^`]*`|[^\]`])*)\]\(([^)\s]+)\)")
_FIRST_ITEM = re.compile(r"^(?![-*] |\d+\. |\s)(.+)\n(?=(?:[-*]|1\.) )", re.MULTILINE)
_BOTH_SCHEMES = re.compile(
    r'<picture>\s*<source [^>]*srcset="([^"]+)">\s*<img alt="([^"]*)" src="([^"]+)">\s*</picture>'
)


def on_config(config):
    """Called by MkDocs first."""
    config.mdx_configs["toc"]["slugify"] = lambda title, separator: anchor(title)
    return config


def anchor(title: str) -> str:
    """The name that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def on_page_markdown(markdown: str, *, page, config, files) -> str:
    """Called by MkDocs with each page."""
    return for_mkdocs(markdown, path=page.file.src_uri)


def for_mkdocs(markdown: str, *, path: str) -> str:
    """The text of a page for MkDocs.

    Args:
      path: of the page in docs/, such as `tutorial/index.md`.
    """
    parts = _BLOCK.split(markdown)
    parts[::2] = [_prose(part, path=path) for part in parts[::2]]
    parts[1::2] = [_FENCE.sub(_language_only, part, count=1) for part in parts[1::2]]
    text = "".join(parts)
    if "```mermaid" in text:
        text += f'\n<script src="{"../" * path.count("/")}{MERMAID}"></script>\n'
    return text


def _language_only(fence: re.Match[str]) -> str:
    """Python-Markdown takes a fence with more than a language for text, and so all below it for a block."""
    ticks, language = fence.groups()
    return ticks + ("text" if language == "output" else language)


def _prose(text: str, *, path: str) -> str:
    text = _FIRST_ITEM.sub(r"\1\n\n", text)  # on GitHub a list needs no blank line before it
    text = _BOTH_SCHEMES.sub(r"![\2](\3#only-light)\n![\2](\1#only-dark)", text)
    return _LINK.sub(lambda link: _reachable(link, path=path), text)


def _reachable(link: re.Match[str], *, path: str) -> str:
    """The link; out of docs/, where the site ends, the path in the repository."""
    text, target = link.groups()
    place = _in_repository(target, path=path)
    if "://" in target or place.startswith("docs/"):
        return link[0]
    return f"`{place}`" if text.strip("`") == place else f"{text} (`{place}`)"


def _in_repository(target: str, *, path: str) -> str:
    file = target.partition("#")[0]
    page = pathlib.PurePosixPath("docs", path)
    return os.path.normpath(page.parent / file) if file else str(page)
