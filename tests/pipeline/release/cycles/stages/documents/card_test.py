"""Names come from data: on a card they are text."""

import pytest

from pipeline.release.cycles.stages.documents import card


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-11-01", "2026-11-01"),
        ("log_loss is 0.2", "log_loss is 0.2"),
        ("a\n# b", "a # b"),
        ("a|b", r"a\|b"),
        ("a\\|b", r"a\\\|b"),
        ("<script>", "&lt;script>"),
        ("[here](javascript:alert(1))", r"\[here\](javascript:alert(1))"),
        ("![](http://x)", r"!\[\](http://x)"),
        ("`id`", "'id'"),
    ],
)
def test_what_could_be_markup_is_written_as_text(text, written):
    assert card._plain(text) == written
