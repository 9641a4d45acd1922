"""The site has each page once, and MkDocs reads a page as GitHub does."""

import re

import pytest
import yaml

from tests.house.docs import documents, site

CONFIG = yaml.safe_load((documents.ROOT / "mkdocs.yml").read_text())
KINDS = ("Tutorial", "Guides", "Concepts", "Reference")


def pages(nav: object) -> list[str]:
    """The pages of a navigation, in its order."""
    if isinstance(nav, str):
        return [nav]
    inner = nav.values() if isinstance(nav, dict) else nav
    return [page for each in inner for page in pages(each)]


def test_the_navigation_has_each_page_once():
    written = [name.removeprefix("docs/") for name in documents.names() if name.startswith("docs/")]
    assert sorted(pages(CONFIG["nav"])) == sorted(written)


def test_the_navigation_goes_by_the_four_kinds():
    assert [next(iter(each)) for each in CONFIG["nav"]] == ["Penstock", *KINDS]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("see [feed](feed.md#units) and [it](#a)", "see [feed](feed.md#units) and [it](#a)"),
        ("[the front](../README.md)", "the front (`README.md`)"),
        ("[`deploy/x.py`](../deploy/x.py#L3)", "`deploy/x.py`"),
        ("[two\nlines](../tests/a.py)", "two\nlines (`tests/a.py`)"),
        ("[`a[0]`](../a.py) [b](b.md)", "`a[0]` (`a.py`) [b](b.md)"),
        ("![drawing](design.svg)", "![drawing](design.svg)"),
        ("[out](https://example.org/a)", "[out](https://example.org/a)"),
        ("text:\n- one\n- two", "text:\n\n- one\n- two"),
        ("- one\n  more\n- two", "- one\n  more\n- two"),
        ("depth of\n64. Files", "depth of\n64. Files"),
        ("```sh not-run: why\n[a](../b)\n- c\n```", "```sh\n[a](../b)\n- c\n```"),
        ("a\n```output\n7 …\n```\nb", "a\n```text\n7 …\n```\nb"),
    ],
)
def test_a_page_reads_as_on_github(written, read):
    assert site.for_mkdocs(written, path="page.md") == read


def test_a_page_in_a_folder_finds_the_repository():
    assert site.for_mkdocs("[a](../../demo/a.py) [b](../b.md)", path="guides/x.md") == (
        "a (`demo/a.py`) [b](../b.md)"
    )


def test_a_picture_follows_the_colours_of_the_page():
    written = """<picture>
  <source media="(prefers-color-scheme: dark)" srcset="p/a-dark.png">
  <img alt="A page" src="p/a-light.png">
</picture>"""
    assert site.for_mkdocs(written, path="a.md") == (
        "![A page](p/a-light.png#only-light)\n![A page](p/a-dark.png#only-dark)"
    )


def test_a_drawing_is_drawn_without_the_network():
    drawn = site.for_mkdocs("```mermaid\ngraph LR\n```", path="concepts/gate.md")
    assert drawn.endswith('\n<script src="../assets/mermaid.min.js"></script>\n')
    makefile = documents.read("Makefile")
    assert re.search(rf"build/site/{re.escape(site.MERMAID)}", makefile)
