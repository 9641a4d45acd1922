"""The pages name what exists, run as they say, and hold figures that were measured."""

import ast
import collections
import dataclasses
import pathlib
import re
from collections.abc import Iterator, Mapping

import pytest

from tests.house.docs import commands, documents, known_flags, site

# What a document names exists: files that it links to, headings, paths, modules and flags in `code`.

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"(?:beam_jobs|pipeline|models|tests|benchmarks|deploy|demo|docs)/[\w./*-]*")
_MODULE = re.compile(r"(?:python -m )?((?:beam_jobs|pipeline|models|tests|benchmarks)(?:\.\w+)+)(?<!\.pb)")
_FLAG = re.compile(r"(?<![\w-])--([a-z]\w*)")
_PLACEHOLDER = "NAME"  # of a file that the reader is to write
# Flags of pip, git, uv and the like, of which a document may speak.
OF_OTHERS = {"logdir", "require"}


def anchors(name: str) -> set[str]:
    """The headings of a document as links name them."""
    titles = re.findall(r"^#+ (.+)$", documents.prose(name), re.MULTILINE)
    return set(map(site.anchor, titles))


def broken_links(name: str, text: str) -> list[str]:
    wrong = []
    for target in _LINK.findall(text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (documents.ROOT / name).parent / path if path else documents.ROOT / name
        if not file.exists():
            wrong.append(f"{target}: no such file")
        elif anchor and anchor not in anchors(str(file.resolve().relative_to(documents.ROOT))):
            wrong.append(f"{target}: no such heading")
    return wrong


def missing_names(text: str) -> list[str]:
    """Paths, modules and flags in the `code` of a text that do not exist."""
    wrong = []
    for code in _CODE.findall(text):
        if (
            _PATH.fullmatch(code)
            and _PLACEHOLDER not in code
            and not list(documents.ROOT.glob(code.rstrip("/")))
        ):
            wrong.append(f"{code}: no such file")
        if (named := _MODULE.fullmatch(code)) and not exists(named[1]):
            wrong.append(f"{code}: no such module")
        if code.startswith(("--", "python -m ")):  # others' commands have flags of their own
            wrong += [f"--{flag}: no command has this flag" for flag in _FLAG.findall(code) if unknown(flag)]
    return wrong


def exists(dotted: str) -> bool:
    """Whether `dotted` is a module, or a name in one."""
    path = documents.ROOT / dotted.replace(".", "/")
    if path.is_dir() or path.with_suffix(".py").exists():
        return True
    module, name = path.parent.with_suffix(".py"), path.name
    return (
        module.exists()
        and re.search(rf"^(?:def|class) {name}\b|^{name} ", module.read_text(), re.M) is not None
    )


def unknown(flag: str) -> bool:
    known = OF_OTHERS | {*known_flags.of_all()}
    return flag not in known and flag.removeprefix("no") not in known  # absl's --noFLAG


def test_links_lead_somewhere():
    broken = {name: broken_links(name, documents.prose(name)) for name in documents.names()}
    assert not (wrong := {name: found for name, found in broken.items() if found}), wrong


def test_named_paths_modules_and_flags_exist():
    missing = {name: missing_names(documents.prose(name)) for name in documents.names()}
    assert not (wrong := {name: found for name, found in missing.items() if found}), wrong


def test_paths_in_commands_that_are_not_run_exist():
    not_run = [block for name in documents.names() for block in documents.blocks(name) if block.reason]
    texts = [(block.where, re.sub(r"--output=\S+", "", block.text)) for block in not_run]
    words = {(where, word) for where, text in texts for word in re.findall(r"[^\s=]+", text)}
    paths = sorted((where, word) for where, word in words if _PATH.fullmatch(word))
    missing = [(where, word) for where, word in paths if not list(documents.ROOT.glob(word.rstrip("/")))]
    assert not missing, f"commands that no test runs name {missing}"


def test_planted_mistakes_are_found():
    assert broken_links("README.md", "[a](docs/no-such.md), [b](README.md#no-such)") == [
        "docs/no-such.md: no such file",
        "README.md#no-such: no such heading",
    ]
    assert missing_names("`pipeline/data/old.py`, `python -m beam_jobs.comvert` and `--no_such=1`") == [
        "pipeline/data/old.py: no such file",
        "python -m beam_jobs.comvert: no such module",
        "--no_such: no command has this flag",
    ]


# A result stands in one document: copies of it grow old at different times.

README_LINES = 155
LEAST_DIGITS = 3  # of fewer digits, two results may well be equal by chance
# Accuracy and AUC have four digits behind the point; the others a unit.
_FIGURE = re.compile(
    r"(?<![\w.,])(?:0\.\d{4}|\d[\d,.]*(?:×|\s?(?:µs|ms|MB/s|GB/s|examples/s|rows/s)|\s(?:s|min))(?![\w/]))"
)


def figures(text: str) -> set[str]:
    """Results in a text, without the spaces in them."""
    found = {re.sub(r"\s", "", figure) for figure in _FIGURE.findall(text)}
    return {figure for figure in found if sum(map(str.isdigit, figure)) >= LEAST_DIGITS}


def repeated(texts: Mapping[str, str]) -> list[str]:
    """Figures that stand in more than one of the documents, with their names."""
    where = collections.defaultdict(list)
    for name, text in texts.items():
        for figure in figures(text):
            where[figure].append(name)
    return [f"{figure}: {', '.join(names)}" for figure, names in sorted(where.items()) if len(names) > 1]


def test_no_figure_stands_in_two_documents():
    names = [name for name in documents.names() if not name.startswith(documents.FROM_CODE)]
    written = {name: documents.read(name) for name in names}
    for run in documents.GENERATED:  # two runs of one benchmark share its targets
        texts = written | {run: documents.read(run)}
        assert repeated(texts) == [], "Keep each in docs/measurements.md only, and link to it"


def test_a_planted_copy_is_found():
    texts = {
        "a.md": "accuracy 0.9870, 4.2× and 25.5 µs",
        "b.md": "0.9870; 25.5µs; 5.5×; 16 rows",
        "c.md": "5.5",
    }
    assert repeated(texts) == ["0.9870: a.md, b.md", "25.5µs: a.md, b.md"]


def test_the_readme_fits_on_few_screens():
    lines = len(documents.read("README.md").splitlines())
    assert lines <= README_LINES, f"README.md has {lines} lines; move what is not for everybody to docs/"


# Every command and every snippet of the documents runs as it is written, in a copy of the tree.

WITH_COMMANDS = [name for name in documents.names() if any(block.is_run for block in documents.blocks(name))]


FRESH = "README.md"  # whose commands start as users start them: TensorFlow takes half of the time
EXAMPLES = "examples/"  # tests/commands/examples_test.py runs these
WARM = [name for name in WITH_COMMANDS if name != FRESH and not name.startswith(EXAMPLES)]


@pytest.mark.slow
def test_the_commands_of_the_readme_run(tmp_path: pathlib.Path):
    commands.copy_tree(tmp_path)
    assert not (wrong := commands.failure(documents.blocks(FRESH), tmp_path)), wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", WARM)
def test_the_commands_of_a_document_run(name: str, tmp_path: pathlib.Path, warm_python: pathlib.Path):
    commands.copy_tree(tmp_path)
    assert not (wrong := commands.failure(documents.blocks(name), tmp_path, python=warm_python)), wrong


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("```sh\ntrue\n```", ""),
        ("```sh\nfalse | true\n```", "made-up.md:1: exit code 1"),
        ("# Title\n\n```sh\npython -m beam_jobs.no_such_command\n```", "made-up.md:3: exit code 1"),
        ("```python\nraise SystemExit(3)\n```", "made-up.md:1: exit code 3"),
        ("```sh not-run: this would fail\nfalse\n```", ""),
        ("```sh\necho 7 rows read\n```\n```output\n… rows …\n```", ""),
        ("```sh\necho 7 rows\n```\n```output\n8 rows\n```", "made-up.md:4: the block before does not print"),
        ("```sh\necho > made; cat made\n```\n```python\nopen('made')\n```", ""),
    ],
)
def test_a_broken_command_is_named(text, wrong, tmp_path):
    found = commands.failure(documents.blocks("made-up.md", text), tmp_path)
    assert found.startswith(wrong)
    assert bool(found) == bool(wrong)


# docs/design.md follows a row, a config value and a checkpoint; each hop names a function that exists.

PAGE = "docs/design.md"
MOST_HOPS = 15
_LISTS = ("One row", "One config value", "One checkpoint")
_HOP = re.compile(r"^(\d+)\. `([\w./]+\.py)` `([\w.]+)` – ", re.MULTILINE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hop:
    number: int
    path: str
    function: str  # `function`, or `Class.method`


def hops(title: str, page: str) -> tuple[Hop, ...]:
    """The hops under a heading of the page."""
    under = page.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    return tuple(
        Hop(number=int(number), path=path, function=name) for number, path, name in _HOP.findall(under)
    )


def defined(code: str) -> set[str]:
    """Functions and `Class.method`s of a module."""
    return set(_names(ast.parse(code).body))


def wrong(hop: Hop) -> str:
    """What to change in the page for one hop; empty if it holds."""
    path = documents.ROOT / hop.path
    if not path.is_file():
        return f"{PAGE}, hop {hop.number}: there is no {hop.path}; name the file that has {hop.function} now"
    if hop.function in (found := defined(path.read_text())):
        return ""
    return (
        f"{PAGE}, hop {hop.number}: {hop.path} defines no {hop.function}; name the function that does it"
        f" now, and see that the sentence still holds. It defines {', '.join(sorted(found))}"
    )


def _names(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}"
        elif isinstance(node, ast.ClassDef):
            yield from _names(node.body, f"{node.name}.")


@pytest.mark.parametrize("title", _LISTS)
def test_every_hop_names_a_function_that_exists(title):
    followed = hops(title, documents.read(PAGE))
    assert not (found := [text for hop in followed if (text := wrong(hop))]), "\n".join(found)
    assert [hop.number for hop in followed] == list(range(1, len(followed) + 1))
    assert 5 <= len(followed) <= MOST_HOPS


def test_every_numbered_line_is_a_hop():
    page = documents.read(PAGE)
    assert len(re.findall(r"^\d+\. ", page, re.MULTILINE)) == sum(len(hops(each, page)) for each in _LISTS)


def test_a_row_goes_from_a_cell_to_a_prediction():
    first, *_, last = hops("One row", documents.read(PAGE))
    assert first.path.startswith("beam_jobs/sources/")
    assert last.function.endswith("predictions")


def test_what_the_drawing_names_exists():
    text = (documents.ROOT / "docs/design.svg").read_text()
    folders = re.findall(r">((?:[a-z_]+/)+(?:[a-z_]+\.py)?)<", text)
    roots = [documents.ROOT / root for root in ("", "beam_jobs", "pipeline")]
    missing = [name for name in folders if not any((root / name).exists() for root in roots)]
    assert len(folders) >= 10
    assert not missing, f"docs/design.svg names {', '.join(missing)}: draw what is there now"


def test_a_planted_name_is_found():
    assert wrong(Hop(number=3, path="beam_jobs/cells/typed.py", function="parse")) == ""
    assert "there is no beam_jobs/old.py" in wrong(Hop(number=3, path="beam_jobs/old.py", function="parse"))
    assert "defines no parsed" in wrong(Hop(number=3, path="beam_jobs/cells/typed.py", function="parsed"))
