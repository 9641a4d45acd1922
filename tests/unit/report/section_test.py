"""One section, rendered to a terminal and to a page."""

import sys

import pytest

from pipeline.report import html, terminal
from pipeline.report.section import Cell, Code, Facts, Figure, Finding, Folded, Note, Section, Table, Tiles

TABLE = Table(header=("split", "rows"), rows=[("train", "1,577"), ("test", "9")], numbers={1}, rules=(0,))


def text(*parts: object) -> list[str]:
    return terminal.render([Section(parts=parts)]).splitlines()


def page(*parts: object) -> str:
    return html.page(Section(title="A page"), [Section(title="A section", parts=parts)])


def test_columns_stand_below_each_other_and_numbers_to_the_right():
    assert text(TABLE) == ["split   rows", "────────────", "train  1,577", "test       9"]
    assert '<td>test</td><td class="n">9</td>' in page(TABLE)


def test_a_row_of_another_length_sticks_out():
    assert terminal.aligned([("a", "b"), ("1", "2"), ("1", "no", "reason")]) == [
        "a  b",
        "1  2",
        "1  no  reason",
    ]


def test_titles_leave_room_for_marks_where_one_section_is_judged():
    sections = [Section(title="Rows", good=False, parts=["one is bad"]), Section(title="Splits")]
    assert terminal.render(sections) == "!!  Rows\n    one is bad\n\n    Splits"
    assert terminal.render(sections[1:]) == "Splits"
    assert '<section class="bad"><h2>Rows</h2><p>one is bad</p></section>' in html.page(sections[1], sections)


def test_facts_that_are_not_known_are_left_out():
    facts = Facts(items=[("host", "4 cores"), ("beside", None), ("verdict", "FED"), ("mixed", "")])
    assert text(facts) == ["host     4 cores", "verdict  FED"]
    assert page(facts).count("<dt>") == 2


def test_many_facts_stand_beside_each_other_and_fold_away():
    facts = Facts(items=[(f"f{number}", "x" * 20) for number in range(40)], is_dense=True)
    lines = text(facts)
    assert lines[0].startswith("f0=xxxxxxxxxxxxxxxxxxxx  f1=")
    assert max(map(len, lines)) <= 110
    assert lines[-1].endswith("… and 10 more: a page has all")
    assert "<summary>16 more</summary>" in page(facts)


def test_figures_stand_in_one_grid_and_findings_in_one_list():
    shown = page(
        Figure(title="a", drawing="x"), (Note(text="b"),), Finding(text="c"), Finding(text="d", advice="e")
    )
    assert shown.count('<div class="figures">') == shown.count("<ul>") == 1
    assert "<li>c</li><li><b>d </b>e</li>" in shown


def test_rows_beyond_those_that_are_open_fold_away():
    table = Table(rows=[[number] for number in range(5)], open_rows=2, more="features")
    assert "<summary>3 more features</summary>" in page(table)


def test_what_a_value_holds_becomes_no_markup_and_no_control_character():
    hostile = "<script>\x1b[2J\n"
    parts = [
        hostile,
        Facts(items=[("a", hostile)]),
        Table(rows=[[Cell(text=hostile, note=hostile, link=hostile)]]),
    ]
    parts += [Folded(title=hostile, parts=[hostile]), Tiles(items=[(hostile, hostile)])]
    assert "<script" not in page(*parts)
    assert not {"\x1b"} & set(terminal.render([Section(parts=parts)]))


def test_markup_is_for_pages_alone():
    drawing = html.tag("p", "drawn")
    assert text(drawing, Figure(title="a", drawing=drawing)) == []
    assert "<p>drawn</p>" in page(drawing)


@pytest.mark.parametrize("columns", [40, 80])
def test_a_terminal_gets_lines_that_are_broken_at_words(columns: int, monkeypatch: pytest.MonkeyPatch):
    words = " ".join(f"word{at}" for at in range(30))
    parts = [Facts(items=[("host", words), ("a name", "short")]), Finding(text=words), words]
    section = Section(title="Title", parts=[*parts, Code(text=words)])
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(columns))
    *lines, code = terminal.render([section]).splitlines()
    assert all(len(line) <= columns for line in lines)
    assert code == f"  {words}"
    assert " ".join(" ".join(lines).split()) == f"Title host {words} a name short - {words} {words}"
    assert lines[1].startswith("  host    word0")
    assert lines[2].startswith("          word")  # below the value
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    assert len(terminal.render([section]).splitlines()) == 6
